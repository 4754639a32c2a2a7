package event

import (
	"context"
	"time"
)

// Sale is what a hold needs to know of an event's sale.
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

// Admits is nil while the sale is on; else ErrCancelled, or ErrSaleNotOpen with saleStatus and salesOpenAt.
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

// Status is the sale's at a moment; soldOut says that every place is sold. What is held may come
// back, so it is not sold.
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

// Standing is where a sale stands, for those who wait for it.
type Standing struct {
	Status Status
	// OpensAt is from when somebody may buy, ClosesAt until when.
	OpensAt, ClosesAt time.Time
	// SettingsVersion changes with the settings of the event's line.
	SettingsVersion int64
	// Age is how long ago it was measured, as Service.Standings answers it.
	Age time.Duration
}

// lasts is how old a standing may be. Only a hall that is sold out is read whole to find that.
func (s Standing) lasts() time.Duration {
	if s.Status == StatusSoldOut {
		return soldOutAge
	}
	return standingAge
}

// Standings returns where sales stand, by id, each at most 1 s old, one that is sold out at most 5 s;
// ids that have none are left out, and `missing` is how long ago that was measured of the oldest of
// them. What nobody has asked for within that time is read in statements of standingsAtOnce.
func (s *Service) Standings(ctx context.Context, ids []string) (found map[string]Standing, missing time.Duration, err error) {
	list, err := s.standings.getAll(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	found = make(map[string]Standing, len(ids))
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

func (s *Service) loadStandings(ctx context.Context, ids []string) (found map[string]Standing, err error) {
	err = s.sales.do(ctx, func() error {
		found, err = s.reader.Standings(ctx, ids)
		return err
	})
	return found, err
}
