package line

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// SaleStatus is the status of an event's sale. Redis has these numbers too.
type SaleStatus int64

// The statuses of a sale. NoSale means that the id has no sale, or that nothing is known of it.
// UnknownSale is a status that this release does not know; nobody is admitted then.
const (
	NoSale SaleStatus = iota
	Scheduled
	OnSale
	SalePaused
	SoldOut
	SaleClosed
	Cancelled
	UnknownSale
	Presale
)

// saleNames are the names of the statuses in APIs, by number.
var saleNames = [...]string{"", "SCHEDULED", "ON_SALE", "PAUSED", "SOLD_OUT", "CLOSED", "CANCELLED", "", "PRESALE"} //nolint:gochecknoglobals // a constant table

// String returns the name in APIs. It is empty for NoSale, and for a number that this release does
// not know: Redis may have the number of another release.
func (s SaleStatus) String() string {
	if s < 0 || int(s) >= len(saleNames) {
		return ""
	}
	return saleNames[s]
}

// ParseSaleStatus parses the name of a status. An unknown name gives UnknownSale.
func ParseSaleStatus(name string) SaleStatus {
	if i := slices.Index(saleNames[:], name); i > 0 && name != "" {
		return SaleStatus(i)
	}
	return UnknownSale
}

// AllowsAdmission reports whether the line may admit visitors, in a presale those entitled to it.
func (s SaleStatus) AllowsAdmission() bool { return s == NoSale || s == OnSale || s == Presale }

// Ended reports whether the sale has ended. The line ends with it.
func (s SaleStatus) Ended() bool { return s == SaleClosed || s == Cancelled }

// Sale is a report of the ticket service on an event's sale. The zero value means nothing is known.
type Sale struct {
	Status SaleStatus
	// OpensAt and ClosesAt are epoch milliseconds, 0 = none. From PresaleOpensAt (0 = no presale) until
	// OpensAt only users with an entitlement are admitted.
	OpensAt, ClosesAt, PresaleOpensAt int64
	At                                int64 // when it was read, on the line's clock (epoch ms)
}

// StatusAt returns the status of the sale at a time (epoch ms). Presale and sale open, and the sale
// closes, at their times, even without a new report. The Lua scripts have the same rule
// (lua/prelude.lua).
func (s Sale) StatusAt(now int64) SaleStatus {
	open := s.openAt(now)
	switch {
	case s.Status == Cancelled:
		return Cancelled
	case s.ClosesAt > 0 && now >= s.ClosesAt:
		return SaleClosed
	case s.Status == Scheduled || s.Status == Presale || s.Status == OnSale || s.Status == SoldOut && open == Scheduled:
		return open
	default:
		return s.Status
	}
}

// openAt returns the status that a sale has by its opening times alone.
func (s Sale) openAt(now int64) SaleStatus {
	switch {
	case now >= s.OpensAt:
		return OnSale
	case s.PresaleOpensAt > 0 && now >= s.PresaleOpensAt:
		return Presale
	default:
		return Scheduled
	}
}

// isBeforeGeneral reports whether there is a presale and the general sale has not opened yet.
func (s Sale) isBeforeGeneral(now int64) bool {
	return s.PresaleOpensAt > 0 && now < s.OpensAt && !s.StatusAt(now).Ended()
}

// SaleReport is a Sale as the ticket service reports it, with an Age in place of the time At.
type SaleReport struct {
	Sale

	Age             time.Duration // how long ago the status was read
	SettingsVersion int64         // changes with the line's settings; 0 = unknown
}

// SaleReader reads the statuses of sales from the ticket service.
type SaleReader interface {
	// Sales returns reports by event id, without the ids that have no sale. missing is how long ago
	// the ticket service found that these ids have no sale.
	Sales(ctx context.Context, eventIDs []string) (found map[string]SaleReport, missing time.Duration, err error)
}

const (
	// salesInterval is the time between two reads of the statuses of lines in use. For other lines it
	// is idleSalesInterval; the first visitor of such a line waits for a read. Once an event has had
	// no contact and no registry entry for idleWindow, its status is not read any more.
	salesInterval     = time.Second
	idleSalesInterval = 10 * time.Second
	idleWindow        = 3 * idleTickInterval
	// maxSalesPerCall is the most events in one call, which one SQL statement reads; a call fails for
	// all its events. maxParallelSalesCalls is the most calls at once.
	maxSalesPerCall       = 50
	maxParallelSalesCalls = 4
	// saleTimeout limits the read of a new line's sale status; the first visitor waits for it.
	saleTimeout = 250 * time.Millisecond
	// maxSaleAge is the age at which a sale report is read again; its data may be 5 s older. For the
	// first visitor of a line that was not in use, the age is maxNewSaleAge, so that an operator's
	// decision takes effect there as soon as in other lines.
	maxSaleAge    = 7 * time.Second
	maxNewSaleAge = 2 * salesInterval
)

// RefreshSales reads the sale reports that are due to be read. After a failure, the last reports
// are used.
func (s *Service) RefreshSales(ctx context.Context) {
	var failed atomic.Pointer[error]
	var calls errgroup.Group
	calls.SetLimit(maxParallelSalesCalls)
	for ids := range slices.Chunk(s.cache.takeDueSales(), maxSalesPerCall) {
		calls.Go(func() error {
			if err := s.fetchSales(ctx, ids); err != nil {
				failed.Store(&err)
			}
			return nil // so that a failure does not stop the other calls
		})
	}
	_ = calls.Wait()
	s.logSalesOutage(ctx, failed.Load())
}

// logSalesOutage logs when the reads of sale statuses begin to fail, and when they succeed again.
func (s *Service) logSalesOutage(ctx context.Context, failed *error) {
	failing := failed != nil
	switch {
	case ctx.Err() != nil || s.salesFailing.Swap(failing) == failing:
	case failing:
		s.log.WarnContext(ctx, "sale statuses not read", "error", *failed)
	default:
		s.log.InfoContext(ctx, "sale statuses can be read again")
	}
}

// fetchSales reads sale reports and caches them. The time of a report is the line's time before the
// call minus the report's age, so that it is never later than the true time.
func (s *Service) fetchSales(ctx context.Context, eventIDs []string) error {
	lineTimes := make([]int64, len(eventIDs))
	for i, id := range eventIDs {
		lineTimes[i] = s.cache.lineTime(id)
	}
	found, missing, err := s.sales.Sales(ctx, eventIDs)
	if err != nil {
		return err
	}
	for i, id := range eventIDs {
		report, ok := found[id]
		if !ok {
			report.Age = missing
		}
		report.At = lineTimes[i] - report.Age.Milliseconds()
		s.cache.SetSale(id, report.Sale)
		if report.SettingsVersion != 0 {
			s.cache.noteSettingsVersion(id, report.SettingsVersion)
		}
	}
	return nil
}

// ensureSale reads the event's sale report, unless the cached one is at most limit old. Concurrent
// calls share the read. After a failure, the old report is used, and the next refresh tries again.
func (s *Service) ensureSale(ctx context.Context, eventID string, limit time.Duration) error {
	if s.cache.saleIsRecent(eventID, limit) {
		return nil
	}
	_, err, _ := s.saleCalls.Do(eventID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleTimeout)
		defer cancel()
		return nil, s.fetchSales(ctx, []string{eventID})
	})
	if err != nil && !s.cache.saleIsKnown(eventID) {
		s.log.WarnContext(ctx, "sale status not read", "event", eventID, "error", err)
	}
	return err
}

// saleReopened reports whether a sale that has ended according to an old report has not ended. It
// reads a new report, so that no visitor is refused because of an old one.
func (s *Service) saleReopened(ctx context.Context, eventID string) bool {
	if !s.cache.saleStatus(eventID).Ended() || s.cache.saleIsRecent(eventID, maxSaleAge) {
		return false
	}
	_ = s.ensureSale(ctx, eventID, maxSaleAge) // after a failure the old report is used
	return !s.cache.saleStatus(eventID).Ended()
}
