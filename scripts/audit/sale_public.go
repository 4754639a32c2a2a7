package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"urr.guru/scripts/crowd"
)

// PublicSale judges a platform without access to its stores, by public information and by what
// the visitors saw. Sold comes from the public figures; oversold counts seats for which two
// visitors of the crowd hold a ticket; paid without ticket counts visitors whose payment was
// confirmed and who saw no ticket. The number of visitors inside and the order of admissions are
// visible in the stores only, and stay unknown.
type PublicSale struct {
	Visitor *crowd.Session
	EventID string
}

// Begin says how the run is judged.
func (o *PublicSale) Begin(context.Context) error {
	fmt.Println("the stores are not named: the run is judged by what the visitors see (see “Another platform” in scripts/README.md)")
	return nil
}

// Sample has the number of sold seats only.
func (o *PublicSale) Sample(ctx context.Context) (s Sample, err error) {
	s.Sold, err = o.sold(ctx)
	return s, err
}

func (o *PublicSale) sold(ctx context.Context) (int64, error) {
	ans, err := o.Visitor.Call(ctx, crowd.StepFigures, http.MethodGet, "/api/v1/stats/events/"+o.EventID, nil, nil)
	if err != nil {
		return 0, err
	}
	if !ans.OK() {
		return 0, fmt.Errorf("the figures of %s: %d %s", o.EventID, ans.Status, ans.Body)
	}
	var figures struct {
		SeatsSold int64 `json:"seatsSold"`
	}
	if err := json.Unmarshal(ans.Body, &figures); err != nil {
		return 0, fmt.Errorf("the figures of %s: %w", o.EventID, err)
	}
	return figures.SeatsSold, nil
}

// Settle does not wait: judge reads the figures until the sale is sold out.
func (*PublicSale) Settle(context.Context) error { return nil }

// Damage is refused: there is no damaging stores that are not named.
func (*PublicSale) Damage(context.Context, string) error {
	return errors.New("the stores are not named")
}

func (o *PublicSale) judge(ctx context.Context, run SaleRun, v *saleFindings) error {
	for deadline := time.Now().Add(settleWithin); ; {
		sold, err := o.sold(ctx)
		over := time.Now().After(deadline)
		if err != nil && over {
			return err // until then a store may be unavailable
		}
		v.Sold = int(sold)
		if v.Sold == v.Seats || over {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	v.Oversold = len(run.Tally.DuplicateSeats()) + max(0, v.Sold-v.Seats)
	v.PaidWithoutTicket = int(run.Tally.Paid.Load() - run.Tally.Ticketed.Load())
	return nil
}
