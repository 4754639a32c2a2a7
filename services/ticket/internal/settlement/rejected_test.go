package settlement_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/purchase"
)

// A rejected payment that was under way is over at once: its purchase is as after a declined
// payment, can be paid by another one, and is not extended for the rejected one.
func TestRejectedPaymentsGiveEverythingBack(t *testing.T) {
	t.Parallel()
	for _, begin := range kinds {
		t.Run(string(begin().kind), func(t *testing.T) {
			t.Parallel()
			declined, rejected := begin(), begin()
			_, _, status := rejected.state()
			rejected.succeed(t, "14m begin p1; 14m refund p1; 14m settle p1")
			declined.succeed(t, "14m begin p1; 14m abort p1")
			wantPayment, wantUntil, wantStatus := declined.state()
			gotPayment, until, gotStatus := rejected.state()
			require.Equal(t, []any{wantPayment, wantUntil, wantStatus}, []any{gotPayment, until, gotStatus})
			require.Equal(t, []any{uuid.Nil, noon.Add(14*time.Minute + purchase.RetryWithin), status}, []any{gotPayment, until, gotStatus})

			rejected.succeed(t, "16m59s extend p1")
			_, after, _ := rejected.state()
			require.Equal(t, until, after, "its claim is over")
			rejected.succeed(t, "14m begin p2; 14m settle p1") // the event comes again
			got, _, _ := rejected.state()
			require.Equal(t, paymentNamed("p2"), got)
			rejected.succeed(t, "14m settle p2")
			require.Empty(t, rejected.batch.Ended[paymentNamed("p2")])
		})
	}
}

// A rejected payment that is not under way any more changes nothing for the one that is. Its payer is
// told.
func TestRejectedPaymentsLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	for _, begin := range kinds {
		p := begin()
		p.succeed(t, "0s begin p1; 0s abort p1; 0s begin p2; 0s refund p1")
		before, until, status := p.state()
		p.succeed(t, "0s settle p1")
		after, untilAfter, statusAfter := p.state()
		require.Equal(t, []any{before, until, status}, []any{after, untilAfter, statusAfter}, p.kind)
		require.Len(t, p.batch.Notices, 1)
	}
}

// Only a payment that was begun for this purchase, by this user, with its amount, settles it. Any other
// record changes nothing, and gives nothing back: whoever has written it is not the payment service.
func TestPaymentsThatWereNotBegunChangeNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"settle p2", "settle -", "settle p1 thief", "settle p1 cheap", "settle p1 dollars"} {
		for _, begin := range kinds {
			for _, before := range []string{"0s payable", "0s begin p1"} {
				p := begin()
				p.succeed(t, before)
				fields := p.fields()
				require.Equal(t, "(not begun)", p.do(t, "0s "+step), "%s %s", p.kind, step)
				require.Equal(t, fields, p.fields(), "%s %s", p.kind, step)
				require.Empty(t, p.batch.NewlyEnded, "%s %s", p.kind, step)
				require.Empty(t, p.batch.Notices, "%s %s", p.kind, step)
			}
		}
	}
}

// Each payment that was begun counts, also when it was given up since, and when the time to pay is over.
func TestEarlierPaymentsThatWereBegunAreSettled(t *testing.T) {
	t.Parallel()
	for _, begin := range kinds {
		p := begin()
		p.succeed(t, "0s begin p1; 0s abort p1; 0s settle p1")
		require.Empty(t, p.batch.NewlyEnded, p.kind)

		p = begin()
		p.succeed(t, "0s begin p1; 0s abort p1; 75m settle p1")
		if p.kind != purchase.Transfer { // whose buyer may still pay until the sweeper ends the time
			require.NotEmpty(t, p.batch.NewlyEnded[paymentNamed("p1")], "%s: the money goes back", p.kind)
		}
	}
}
