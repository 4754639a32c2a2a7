package line

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// SaleStatus is where an event's sale stands. The numbers are those that the store keeps.
type SaleStatus int64

// The statuses of a sale. NoSale: the id has none, or it is not known.
const (
	NoSale SaleStatus = iota
	Scheduled
	OnSale
	SalePaused
	SoldOut
	SaleClosed
	Cancelled
)

// saleNames are what everybody else calls them.
var saleNames = [...]string{"", "SCHEDULED", "ON_SALE", "PAUSED", "SOLD_OUT", "CLOSED", "CANCELLED"} //nolint:gochecknoglobals // a constant table

// String is the name that ticket and visitors know; empty for NoSale.
func (s SaleStatus) String() string { return saleNames[s] }

// ParseSaleStatus reads a name. One that this release does not know is NoSale.
func ParseSaleStatus(name string) SaleStatus {
	return SaleStatus(max(0, slices.Index(saleNames[:], name)))
}

// Sells reports whether a line may admit.
func (s SaleStatus) Sells() bool { return s == NoSale || s == OnSale }

// Over reports whether the line has ended.
func (s SaleStatus) Over() bool { return s == SaleClosed || s == Cancelled }

// Sale is ticket's word on an event's sale. The zero value: nothing is known.
type Sale struct {
	Status SaleStatus
	// OpensAt and ClosesAt are epoch milliseconds, 0 = none.
	OpensAt, ClosesAt int64
	// At is the line's time (epoch ms) when it was measured; of two words the later one counts.
	At int64
}

// Stands is the status at a time (epoch ms): a sale opens and closes without waiting for ticket to
// say so. The scripts have the same rule (lua/prelude.lua).
func (s Sale) Stands(now int64) SaleStatus {
	switch {
	case s.Status == Cancelled:
		return Cancelled
	case s.ClosesAt > 0 && now >= s.ClosesAt:
		return SaleClosed
	case (s.Status == OnSale || s.Status == SoldOut) && now < s.OpensAt:
		return Scheduled
	case s.Status == Scheduled && now >= s.OpensAt:
		return OnSale
	default:
		return s.Status
	}
}

// SaleReport is a Sale as ticket tells it. Its At is not set.
type SaleReport struct {
	Sale

	// Age is how long ago the replica of ticket that was asked measured it.
	Age time.Duration
	// SettingsVersion differs from the last one when the line's settings have been changed; 0: unknown.
	SettingsVersion int64
}

// Sales tells where sales stand.
type Sales interface {
	// Sales answers by id; those that have no sale are left out, and `missing` is how long ago that was
	// measured. ErrSalesUnsupported: ticket is of a release that does not tell.
	Sales(ctx context.Context, eventIDs []string) (found map[string]SaleReport, missing time.Duration, err error)
}

const (
	// salesEvery is how often a worker asks where the sales of its lines stand.
	salesEvery = time.Second
	// salesPerCall is how many are asked about together, and share a failure; ticket reads as many by
	// one statement. salesAtOnce is how many calls are under way.
	salesPerCall = 50
	salesAtOnce  = 4
	// saleTimeout bounds the question about a line that begins; its first visitor waits for it.
	saleTimeout = 250 * time.Millisecond
	// saleFreshFor is how old a word may be to do without a question; ticket's own may be 5 s old already.
	saleFreshFor = 7 * time.Second
	// unsupportedFor is how long words count after ticket began not to tell any more: beside replicas of
	// the previous release one that tells is met again before.
	unsupportedFor = time.Minute
)

// AskSales asks where the sales of all lines stand. While ticket does not answer, the last word and
// its times count.
func (s *Service) AskSales(ctx context.Context) {
	var failed atomic.Pointer[error]
	var calls errgroup.Group
	calls.SetLimit(salesAtOnce)
	for ids := range slices.Chunk(s.cache.Asked(), salesPerCall) {
		calls.Go(func() error {
			if err := s.askSales(ctx, ids); err != nil {
				failed.Store(&err)
			}
			return nil // a failure is not the others'
		})
	}
	_ = calls.Wait()
	s.noteSales(ctx, failed.Load())
}

// noteSales logs when the questions begin to fail, and when they are answered again.
func (s *Service) noteSales(ctx context.Context, failed *error) {
	failing := failed != nil
	switch {
	case ctx.Err() != nil || s.salesFailing.Swap(failing) == failing:
	case failing:
		s.log.WarnContext(ctx, "where sales stand is not known", "error", *failed)
	default:
		s.log.InfoContext(ctx, "where sales stand is known again")
	}
}

// askSales asks about lines and tells the cache. A word is as old as it was at ticket before the
// question, by the line's time, so that none counts as later than it is.
func (s *Service) askSales(ctx context.Context, eventIDs []string) error {
	at := make([]int64, len(eventIDs))
	for i, id := range eventIDs {
		at[i] = s.cache.time(id)
	}
	found, missing, err := s.sales.Sales(ctx, eventIDs)
	tells := s.salesAnswered(err)
	if errors.Is(err, ErrSalesUnsupported) {
		err = nil
	}
	if !tells {
		return err
	}
	for i, id := range eventIDs {
		word, ok := found[id]
		if !ok {
			word.Age = missing
		}
		word.At = at[i] - word.Age.Milliseconds()
		s.cache.SetSale(id, word.Sale)
		if word.SettingsVersion != 0 {
			s.cache.settingsChanged(id, word.SettingsVersion)
		}
	}
	return nil
}

// salesAnswered reports whether an answer says something of the sales it was asked for: that nothing is known
// of them when ticket has answered for a minute, and with nothing else, that it does not tell.
func (s *Service) salesAnswered(err error) bool {
	if !errors.Is(err, ErrSalesUnsupported) {
		s.salesUnsupportedSince.Store(0)
		return err == nil
	}
	now, since := s.now().UnixNano(), s.salesUnsupportedSince.Load()
	if since == 0 {
		s.salesUnsupportedSince.CompareAndSwap(0, now)
		return false
	}
	return now-since > int64(unsupportedFor)
}

// ensureSale asks about an event of which nothing is known but by an old word: everybody who comes
// meanwhile waits for the same answer. Without one the old word counts, and all lines are asked about
// again within a second.
func (s *Service) ensureSale(ctx context.Context, eventID string) error {
	if s.cache.saleIsRecent(eventID) {
		return nil
	}
	_, err, _ := s.asking.Do(eventID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saleTimeout)
		defer cancel()
		return nil, s.askSales(ctx, []string{eventID})
	})
	if err != nil && !s.cache.saleIsKnown(eventID) {
		s.log.WarnContext(ctx, "where a sale stands is not known", "event", eventID, "error", err)
	}
	return err
}

// reopened reports whether a sale goes on that is over by an old word: nobody is turned away before
// ticket was asked once more.
func (s *Service) reopened(ctx context.Context, eventID string) bool {
	if !s.cache.sale(eventID).Over() || s.cache.saleIsRecent(eventID) {
		return false
	}
	_ = s.ensureSale(ctx, eventID) // without an answer the old word counts
	return !s.cache.sale(eventID).Over()
}
