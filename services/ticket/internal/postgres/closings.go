package postgres

import (
	"context"
	"time"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

// Closings returns the database's time and, by event id, the state and deadlines that decide on
// payments and refunds. Call it after the transaction has taken its locks: an event may close while
// the transaction waits for a lock.
func Closings(ctx context.Context, tx *Tx, eventIDs []string) (closings map[string]event.Closing, now time.Time, err error) {
	rows, err := tx.Closings(ctx, db.ClosingsParams{EventIds: eventIDs, Now: tx.ClockTime()})
	closings = make(map[string]event.Closing, len(rows))
	for _, r := range rows {
		now = r.Now.UTC()
		closings[r.EventID] = event.Closing{
			State: event.State(r.State), ClosesAt: r.ClosesAt.UTC(), RefundUntil: r.RefundUntil.UTC(), UserRefunds: r.UserRefunds,
			FeesUntil: r.FeesUntil.UTC(), Transferable: event.Transferable(r.Transferable), ReturnWithin: time.Duration(r.ReturnWithin) * time.Second,
			CancellationFees: CancellationFees(r.CancellationUntil, r.CancellationPercents),
		}
	}
	return closings, now, err
}

// CancellationFees makes an event's cancellation fees from two columns of equal length.
func CancellationFees(until []time.Time, percents []int32) event.CancellationFees {
	fees := make(event.CancellationFees, len(until))
	for i := range until {
		fees[i] = event.CancellationFee{Until: until[i].UTC(), Percent: percents[i]}
	}
	return fees
}
