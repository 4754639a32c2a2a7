package postgres

import (
	"context"
	"time"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/refund"
)

// Closings returns the database's time and, by event id, the state and deadlines that decide on
// payments and refunds. A transaction calls it after it has taken its locks: an event may close while
// the transaction waits for a lock.
func Closings(ctx context.Context, q *Queries, eventIDs []string) (closings map[string]event.AfterSaleTerms, now time.Time, err error) {
	rows, err := q.Closings(ctx, db.ClosingsParams{EventIds: eventIDs, Now: q.ClockTime()})
	closings = make(map[string]event.AfterSaleTerms, len(rows))
	for _, r := range rows {
		now = r.Now.UTC()
		closings[r.EventID] = event.AfterSaleTerms{
			State: event.State(r.State), ClosesAt: r.ClosesAt.UTC(), RefundUntil: r.RefundUntil.UTC(), UserRefunds: r.UserRefunds,
			FeesUntil: r.FeesUntil.UTC(), PostponedAt: TimeOrZero(r.PostponedAt), Transferable: event.Transferable(r.Transferable),
			SalesCloseAt: r.SalesCloseAt.UTC(), ReturnsTo: event.ReturnsTo(r.ReturnsTo), ReturnWithin: time.Duration(r.ReturnWithin) * time.Second,
			CancellationFees: CancellationFees(r.CancellationUntil, r.CancellationPercents),
		}
	}
	return closings, now, err
}

// FormerTerms returns the terms of refunds by users that an event had at a time or later, and that
// were replaced since then.
func FormerTerms(ctx context.Context, tx *Tx, eventID string, at time.Time) ([]event.AfterSaleTerms, error) {
	rows, err := tx.FormerTerms(ctx, db.FormerTermsParams{EventID: eventID, At: at})
	terms := make([]event.AfterSaleTerms, len(rows))
	for i, r := range rows {
		terms[i] = event.AfterSaleTerms{
			RefundUntil: r.RefundUntil.UTC(), UserRefunds: r.UserRefunds, FeesUntil: r.FeesUntil.UTC(),
			PostponedAt: TimeOrZero(r.PostponedAt), CancellationFees: CancellationFees(r.CancellationUntil, r.CancellationPercents),
		}
	}
	return terms, err
}

// KeepFormerTerms stores the terms of refunds by users of an event before they change, and deletes
// those that no request can be judged by any more.
func KeepFormerTerms(ctx context.Context, q *Queries, eventID string, now time.Time) error {
	if err := q.PruneFormerTerms(ctx, db.PruneFormerTermsParams{EventID: eventID, Before: now.Add(-refund.AskedWithin)}); err != nil {
		return err
	}
	return q.KeepFormerTerms(ctx, db.KeepFormerTermsParams{EventID: eventID, Now: now})
}

// CancellationFees makes an event's cancellation fees from two columns of equal length.
func CancellationFees(until []time.Time, percents []int32) event.CancellationFees {
	fees := make(event.CancellationFees, len(until))
	for i := range until {
		fees[i] = event.CancellationFee{Until: until[i].UTC(), Percent: percents[i]}
	}
	return fees
}
