package event

import (
	"cmp"
	"context"
	"time"

	"urr.guru/services/ticket/internal/limit"
)

// Sale has the settings of an event that decide whether places may be held.
type Sale struct {
	State State
	// PresaleAt is when users with an entitlement may begin to hold places; zero: there is no presale.
	PresaleAt  time.Time
	OpenAt     time.Time
	CloseAt    time.Time
	MaxPerUser int
	// PresaleMaxPerUser is the user's limit before OpenAt; 0: MaxPerUser.
	PresaleMaxPerUser int
	// MaxPerUserInSeries is the user's limit over all events of the series; 0: there is none.
	MaxPerUserInSeries int
	// MaxReturnsPerUser is how many places a user may give back and buy others; 0: see ReturnsLimit.
	MaxReturnsPerUser int
	// ReturnsTo says who gets places that are given back.
	ReturnsTo ReturnsTo
}

func (e *Event) Sale() Sale {
	s := Sale{State: e.State, OpenAt: e.SalesOpenAt, CloseAt: e.SalesCloseAt, MaxPerUser: e.MaxPerUser}
	if e.Presale != nil {
		s.PresaleAt, s.PresaleMaxPerUser = e.Presale.OpensAt, int(e.Presale.MaxPerUser)
	}
	if e.MaxPerUserInSeries != nil {
		s.MaxPerUserInSeries = int(*e.MaxPerUserInSeries)
	}
	if e.MaxReturnsPerUser != nil {
		s.MaxReturnsPerUser = int(*e.MaxReturnsPerUser)
	}
	if e.ReturnsTo != nil {
		s.ReturnsTo = *e.ReturnsTo
	}
	return s
}

// CheckOpen returns nil while the sale is open to a user, ErrCancelled when the event is cancelled,
// ErrNotEntitled in the presale to users without an entitlement, and otherwise ErrSaleNotOpen with
// saleStatus and salesOpenAt.
func (s Sale) CheckOpen(now time.Time, entitled bool) error {
	err := ErrSaleNotOpen
	status := s.Status(now, false)
	switch {
	case status == StatusCancelled:
		return ErrCancelled
	case status == StatusOnSale, status == StatusPresale && entitled:
		return nil
	case status == StatusPresale:
		err = ErrNotEntitled
	}
	return err.With("saleStatus", string(status)).With("salesOpenAt", s.OpenAt.UTC().Format(time.RFC3339))
}

// Limit returns how many places a user may hold and own at a time.
func (s Sale) Limit(now time.Time) int {
	if s.PresaleMaxPerUser > 0 && now.Before(s.OpenAt) {
		return min(s.MaxPerUser, s.PresaleMaxPerUser)
	}
	return s.MaxPerUser
}

// ReturnsLimit returns how many places a user may give back and buy others.
func (s Sale) ReturnsLimit() int { return cmp.Or(s.MaxReturnsPerUser, 3*s.MaxPerUser) }

// OpensAt is when the first users may hold places: in the presale if there is one.
func (s Sale) OpensAt() time.Time {
	if !s.PresaleAt.IsZero() {
		return s.PresaleAt
	}
	return s.OpenAt
}

// LineStatus returns the status of the sale for the waiting line. A cancellation that can be undone
// counts as PAUSED: the queue service deletes the line of a cancelled sale, which an undo must
// find.
func (s Sale) LineStatus(now time.Time, soldOut bool) Status {
	if s.State == Cancelled {
		s.State = Paused
	}
	return s.Status(now, soldOut)
}

// Status returns the status at the time now. soldOut says that every place is sold; held places do
// not count as sold, since they may become free again.
func (s Sale) Status(now time.Time, soldOut bool) Status {
	switch {
	case !s.State.TakesPlace():
		return StatusCancelled
	case !now.Before(s.CloseAt):
		return StatusClosed
	case s.State == Paused:
		return StatusPaused
	case now.Before(s.OpensAt()):
		return StatusScheduled
	case soldOut:
		return StatusSoldOut
	case now.Before(s.OpenAt):
		return StatusPresale
	default:
		return StatusOnSale
	}
}

// SaleStatus is the status of a sale as the queue service gets it for the event's line.
type SaleStatus struct {
	Status            Status
	OpensAt, ClosesAt time.Time
	// PresaleOpensAt is zero without a presale.
	PresaleOpensAt time.Time
	// SettingsVersion grows with every change of the settings of the event's line.
	SettingsVersion int64
	// Age is the time since the status was read. Only Service.SaleStatuses sets it.
	Age time.Duration
}

// maxAge is how long a sale status may be cached. SOLD_OUT is cached longer, since only then the
// query has to look at every seat.
func (s SaleStatus) maxAge() time.Duration {
	if s.Status == StatusSoldOut {
		return soldOutAge
	}
	return saleStatusAge
}

// SaleStatuses returns the statuses of sales by event id, each at most 1 s old, SOLD_OUT at most 5
// s. Ids without a sale are left out of found; missing is the age of the oldest cached result for
// such an id. Statuses that are not cached are read by queries of statusesPerQuery sales each.
func (s *Service) SaleStatuses(ctx context.Context, ids []string) (found map[string]SaleStatus, missing time.Duration, err error) {
	list, err := s.saleStatuses.getAll(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	found = make(map[string]SaleStatus, len(ids))
	for i, st := range list {
		age := time.Since(st.began)
		if st.value.Status == "" {
			missing = max(missing, age)
			continue
		}
		st.value.Age = age
		found[ids[i]] = st.value
	}
	return found, missing, nil
}

func (s *Service) loadSaleStatuses(ctx context.Context, ids []string) (map[string]SaleStatus, error) {
	return limit.Do(ctx, s.sales, func() (map[string]SaleStatus, error) { return s.reader.SaleStatuses(ctx, ids) })
}
