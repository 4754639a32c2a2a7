package sale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// The size of the small sale, which is cancelled at the end. It has seats for all its buyers.
const (
	cancelledBuyers = 10
	cancelledSeats  = 2 * cancelledBuyers
)

// cancellationState is the gateway's answer about a cancelled event: its state, and the numbers of
// holds, orders, tickets and refunds that are left.
type cancellationState struct {
	State                           string
	Holds, Orders, Tickets, Refunds int
}

// over reports whether the event has ended and no holds, orders and refunds are left.
func (s cancellationState) over() bool { return s.State == "ENDED" && s.Holds+s.Orders+s.Refunds == 0 }

// cancelledSale is a small sale beside the large one. When all its buyers have tickets, an operator
// cancels the sale, undoes this, cancels the sale again, and starts the refunds.
type cancelledSale struct {
	sale  crowd.Sale
	crowd *crowd.Crowd
	// faults describe, in a sentence each, answers that contradict each other.
	faults []string
}

func newCancelled(large crowd.Sale, api *crowd.API, after *crowd.AfterSale, seed uint64) *cancelledSale {
	sale := crowd.Sale{
		EventID: large.EventID + "-cancelled", Seats: cancelledSeats, Threshold: cancelledSeats, Rate: cancelledBuyers, Hold: large.Hold, Slot: large.Slot,
	}
	return &cancelledSale{sale: sale, crowd: crowd.New(sale, api, crowd.Options{
		Visitors: cancelledBuyers, Seed: seed, Behaviours: slices.Repeat([]crowd.Behaviour{crowd.Buys}, cancelledBuyers),
		MaxPaymentAttempts: maxPaymentAttempts, AfterSale: after,
	})}
}

// refundWithin is the time limit of all refunds of the cancelled sale.
const refundWithin = time.Minute

// cancel cancels the sale, and waits until everything is refunded.
func (c *cancelledSale) cancel(ctx context.Context, operator *crowd.Session) error {
	act := func(name string) (s cancellationState, err error) {
		err = demo.PostUntilDone(ctx, operator, crowd.StepCancel, "/api/v1/admin/events/"+c.sale.EventID+"/"+name, &s)
		return s, err
	}
	before, err := act("cancel")
	if err != nil {
		return err
	}
	undone, err := act("cancel/undo")
	if err != nil {
		return err
	}
	if undone.State != "OPEN" || undone.Tickets == 0 || undone.Tickets != before.Tickets || undone.Orders != before.Orders {
		c.faults = append(c.faults, fmt.Sprintf("undoing the cancellation made %+v of %+v", undone, before))
	}
	if _, err := act("cancel"); err != nil {
		return err
	}
	var remaining cancellationState
	for deadline := time.Now().Add(refundWithin); time.Now().Before(deadline); {
		if remaining, err = act("cancel/refund"); err != nil || remaining.over() {
			return err
		}
		if !loop.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
	c.faults = append(c.faults, fmt.Sprintf("of the cancelled sale is left: %+v", remaining))
	return nil
}
