package event

import (
	"context"
	"time"
)

// Sale is what decides whether a hold is admitted.
type Sale struct {
	State      State
	OpenAt     time.Time
	CloseAt    time.Time
	MaxPerUser int
}

// Sale returns the event's.
func (e *Event) Sale() Sale {
	return Sale{State: e.State, OpenAt: e.SalesOpenAt, CloseAt: e.SalesCloseAt, MaxPerUser: e.MaxPerUser}
}

// Admits is nil while the sale is on; else ErrCancelled, or ErrSaleNotOpen with saleStatus and
// salesOpenAt.
func (s Sale) Admits(now time.Time) error {
	status := s.Status(now, false)
	if status == StatusCancelled {
		return ErrCancelled
	}
	if status == StatusOnSale {
		return nil
	}
	return ErrSaleNotOpen.With("saleStatus", string(status)).With("salesOpenAt", s.OpenAt.UTC().Format(time.RFC3339))
}

// Status is the status of a sale at a moment; soldOut: every place is sold. Held places are not
// sold, since they may become free again.
func (s Sale) Status(now time.Time, soldOut bool) Status {
	switch {
	case s.State == Cancelled:
		return StatusCancelled
	case !now.Before(s.CloseAt):
		return StatusClosed
	case s.State == Paused:
		return StatusPaused
	case now.Before(s.OpenAt):
		return StatusScheduled
	case soldOut:
		return StatusSoldOut
	default:
		return StatusOnSale
	}
}

// SaleStatus is the status of a sale, for those who wait for it.
type SaleStatus struct {
	Status Status
	// OpensAt is when the sale opens, ClosesAt when it closes.
	OpensAt, ClosesAt time.Time
	// SettingsVersion changes with the settings of the event's line.
	SettingsVersion int64
	// Age is how long ago it was measured, as Service.SaleStatuses answers it.
	Age time.Duration
}

// maxAge is how old a sale status may be. Only a sold-out hall is read whole, so that status is
// read less often.
func (s SaleStatus) maxAge() time.Duration {
	if s.Status == StatusSoldOut {
		return soldOutAge
	}
	return saleStatusAge
}

// SaleStatuses returns the statuses of sales by id, each at most 1 s old, SOLD_OUT at most 5 s. Ids
// without a sale are left out; missing is how long ago that was measured, for the oldest of them.
// What is not cached is read by queries of statusesPerQuery sales.
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

func (s *Service) loadSaleStatuses(ctx context.Context, ids []string) (found map[string]SaleStatus, err error) {
	err = s.sales.Do(ctx, func() error {
		found, err = s.reader.SaleStatuses(ctx, ids)
		return err
	})
	return found, err
}
