package line

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// SaleStatus is the status of an event's sale. These numbers are also stored in Redis.
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

// String returns the external name; empty for NoSale and for statuses that this release does not know:
// Redis may have the number of another release.
func (s SaleStatus) String() string {
	if s < 0 || int(s) >= len(saleNames) {
		return ""
	}
	return saleNames[s]
}

// ParseSaleStatus parses the name of a status; the result is UnknownSale for a name not known here.
func ParseSaleStatus(name string) SaleStatus {
	if i := slices.Index(saleNames[:], name); i > 0 && name != "" {
		return SaleStatus(i)
	}
	return UnknownSale
}

// AllowsAdmission reports whether the line may admit visitors (in a presale, entitled ones).
func (s SaleStatus) AllowsAdmission() bool { return s == NoSale || s == OnSale || s == Presale }

// Ended reports whether the sale has ended, and with it the line.
func (s SaleStatus) Ended() bool { return s == SaleClosed || s == Cancelled }

// Sale is ticket's report on the sale of an event. The zero value means that nothing is known.
type Sale struct {
	Status SaleStatus
	// OpensAt and ClosesAt are epoch milliseconds, 0 = none. From PresaleOpensAt (0 = no presale) until
	// OpensAt only users with an entitlement are admitted.
	OpensAt, ClosesAt, PresaleOpensAt int64
	At                                int64 // when ticket read the status, in the line's time (epoch ms); of two reports the later counts
}

// StatusAt returns the status of the sale at a time (epoch ms). The presale and the sale open, and the
// sale closes, at their times even without a new report. The Lua scripts have the same rule
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

// openAt returns the status of a sale by its opening times alone.
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

// isBeforeGeneral reports whether there is a presale, and the general sale has not opened yet.
func (s Sale) isBeforeGeneral(now int64) bool {
	return s.PresaleOpensAt > 0 && now < s.OpensAt && !s.StatusAt(now).Ended()
}

// SaleReport is a Sale as ticket reports it: with an Age instead of At.
type SaleReport struct {
	Sale

	Age             time.Duration // the time since ticket measured the status
	SettingsVersion int64         // changes with the line's settings; 0 = unknown
}

// SaleReader reads the statuses of sales from ticket.
type SaleReader interface {
	// Sales returns reports by event id. Ids without a sale are omitted. missing is how long ago
	// ticket found that the omitted ids have no sale.
	Sales(ctx context.Context, eventIDs []string) (found map[string]SaleReport, missing time.Duration, err error)
}

const (
	// salesInterval is the time between two reads of the sale statuses of lines in use,
	// idleSalesInterval that of other lines; the first visitor of such a line waits for a read. No
	// status is read of an event that has had no contact and no registry entry for idleWindow.
	salesInterval     = time.Second
	idleSalesInterval = 10 * time.Second
	idleWindow        = 3 * idleTickInterval
	// maxSalesPerCall is the maximum number of events per call, which ticket reads by one statement. A
	// call fails for all its events. maxParallelSalesCalls bounds the calls in parallel.
	maxSalesPerCall       = 50
	maxParallelSalesCalls = 4
	// saleTimeout bounds the read of a new line's sale status; the first visitor waits for it.
	saleTimeout = 250 * time.Millisecond
	// maxSaleAge is the age above which a sale report is read again; ticket's own data may be 5 s old.
	// maxNewSaleAge is that age when the first visitor comes to a line that was not in use, so that an
	// operator's decision takes effect there as soon as in other lines.
	maxSaleAge    = 7 * time.Second
	maxNewSaleAge = 2 * salesInterval
)

// RefreshSales reads the sale reports that are due to be read. While ticket does not answer, the last
// reports stay in use.
func (s *Service) RefreshSales(ctx context.Context) {
	var failed atomic.Pointer[error]
	var calls errgroup.Group
	calls.SetLimit(maxParallelSalesCalls)
	for ids := range slices.Chunk(s.cache.takeDueSales(), maxSalesPerCall) {
		calls.Go(func() error {
			if err := s.fetchSales(ctx, ids); err != nil {
				failed.Store(&err)
			}
			return nil // a failure does not stop the others
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

// fetchSales reads sale reports and stores them in the cache. A report's time is the line's time
// before the call minus its age, so that no report counts as later than it is.
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
// calls share the read. If it fails, the old report stays in use, and the next refresh retries.
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

// saleReopened reports whether a sale that has ended according to an old report goes on after all.
// It reads a new report for that, so that no visitor is refused because of an old one.
func (s *Service) saleReopened(ctx context.Context, eventID string) bool {
	if !s.cache.saleStatus(eventID).Ended() || s.cache.saleIsRecent(eventID, maxSaleAge) {
		return false
	}
	_ = s.ensureSale(ctx, eventID, maxSaleAge) // after a failure the old report counts
	return !s.cache.saleStatus(eventID).Ended()
}
