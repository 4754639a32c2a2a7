package reservation

import (
	"strconv"
	"strings"
	"time"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
)

// SeatsRequest asks for named seats, all of them or none.
type SeatsRequest struct {
	EventID, UserID, SlotID string
	SeatIDs                 []string
	// SkipLocked: a seat that another transaction has locked counts as taken; else the request
	// waits for it.
	SkipLocked bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
}

// BestRequest asks for a number of places of a section: the best that are free, or general
// admissions.
type BestRequest struct {
	EventID, UserID, SlotID string
	Section                 string
	Quantity                int
	// Adjacent: the seats must be next to each other in one row. Ignored for general admission.
	Adjacent bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
}

// CheckLimit is ErrLimitExceeded when a user who has bought or holds used places may not have want
// more.
func CheckLimit(used int64, want, limit int) error {
	if used+int64(want) <= int64(limit) {
		return nil
	}
	return ErrLimitExceeded.With("limit", strconv.Itoa(limit)).With("used", strconv.FormatInt(used, 10))
}

// Taken is ErrSeatTaken with the taken seats, separated by commas.
func Taken(seatIDs []string) error { return ErrSeatTaken.With("seatIds", strings.Join(seatIDs, ",")) }

// GeneralSale is the state of an event with general admission while its sections are locked.
type GeneralSale struct {
	Sale event.Sale
	Now  time.Time
	// Free places by section; a section that is missing does not exist.
	Free map[string]int64
	// Used is what each user has bought or holds.
	Used map[string]int64
}

// Allot decides on requests in their order of arrival and subtracts from the free places. A refused
// request takes nothing.
func (g *GeneralSale) Allot(req BestRequest) error {
	if err := g.Sale.Admits(g.Now); err != nil {
		return err
	}
	free, ok := g.Free[req.Section]
	if !ok {
		return event.ErrSectionNotFound
	}
	if err := CheckLimit(g.Used[req.UserID], req.Quantity, g.Sale.MaxPerUser); err != nil {
		return err
	}
	if free < int64(req.Quantity) {
		return ErrSoldOut
	}
	g.Free[req.Section] -= int64(req.Quantity)
	g.Used[req.UserID] += int64(req.Quantity)
	return nil
}
