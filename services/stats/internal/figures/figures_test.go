package figures_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/proto/events"
	"urr.guru/services/stats/internal/figures"
)

// evening is not a whole minute, so that tests notice whether times are truncated.
var evening = time.Date(2026, 11, 20, 15, 30, 7, 5, time.UTC)

// at returns a Kafka message of this kind about the event "e", with the time evening.
func at(kind string) figures.Event { return figures.Event{Type: kind, EventID: "e", At: evening} }

// counted returns the delta in which figure f of event e was incremented want[f] times at evening.
func counted(want map[figures.Figure]int64) (d figures.Delta) {
	for figure, n := range want {
		if d == nil {
			d = figures.Delta{}
		}
		d[figures.Key{EventID: "e", Minute: evening.Truncate(time.Minute), Figure: figure}] = figures.Sum{Amount: n, Times: n}
	}
	return d
}

// amounts returns the sum of each figure in a delta.
func amounts(d figures.Delta) map[figures.Figure]int64 {
	out := make(map[figures.Figure]int64)
	for k, sum := range d {
		out[k.Figure] += sum.Amount
	}
	return out
}

// Each type of Kafka event adds to the right figures, or none. Other packages' tests rely on this.
func TestReservationsAdd(t *testing.T) {
	t.Parallel()
	reservation := func(kind, reason, status string, quantity, fee int64) figures.Reservation {
		return figures.Reservation{Event: at(kind), Reason: reason, Status: status, Currency: "KRW", Quantity: quantity, Fee: fee}
	}
	comp := func(kind, reason, status string, quantity int64) figures.Reservation {
		return figures.Reservation{Event: at(kind), Origin: "COMP", Reason: reason, Status: status, Currency: "KRW", Quantity: quantity}
	}
	type (
		reservations = []figures.Reservation
		sums         = map[figures.Figure]int64
	)
	for name, tt := range map[string]struct {
		reservations reservations
		want         sums
	}{
		"created":   {reservations{reservation("RESERVATION_CREATED", "", "", 2, 10)}, sums{figures.Created: 1}},
		"confirmed": {reservations{reservation("RESERVATION_CONFIRMED", "", "", 2, 0)}, sums{figures.Confirmed: 1, figures.SeatsSold: 2}},
		"confirmed with fees": {
			reservations{reservation("RESERVATION_CONFIRMED", "", "CONFIRMED", 2, 10)}, sums{figures.Confirmed: 1, figures.SeatsSold: 2, figures.Fee: 10},
		},
		"cancelled by its holder": {reservations{reservation("RESERVATION_CANCELLED", "USER", "", 2, 10)}, sums{figures.Cancelled: 1}},
		"cancelled by a refund": {
			reservations{reservation("RESERVATION_CANCELLED", "REFUNDED", "", 2, 0)}, sums{figures.Cancelled: 1, figures.SeatsSold: -2},
		},
		"cancelled by a refund with fees": {
			reservations{reservation("RESERVATION_CANCELLED", "REFUNDED", "REFUNDED", 2, 10)},
			sums{figures.Cancelled: 1, figures.SeatsSold: -2, figures.FeeRefund: 10},
		},
		"fees of a ticket that had been passed on": {
			reservations{
				reservation("RESERVATION_CANCELLED", "REFUNDED", "REFUNDED", 1, 0), reservation("RESERVATION_CANCELLED", "REFUNDED", "REFUNDED", 0, 10),
			},
			sums{figures.Cancelled: 1, figures.SeatsSold: -1, figures.FeeRefund: 10},
		},
		"refunded place by place": {
			reservations{
				reservation("RESERVATION_CONFIRMED", "", "", 3, 0), reservation("RESERVATION_CANCELLED", "REFUNDED", "CONFIRMED", 1, 0),
				reservation("RESERVATION_CANCELLED", "REFUNDED", "REFUNDED", 2, 0),
			},
			sums{figures.Confirmed: 1, figures.Cancelled: 1, figures.SeatsSold: 0},
		},
		"one place of three refunded": {
			reservations{reservation("RESERVATION_CANCELLED", "REFUNDED", "CONFIRMED", 1, 0)}, sums{figures.SeatsSold: -1},
		},
		"places voided": {
			reservations{reservation("TICKETS_VOIDED", "VOIDED", "CONFIRMED", 1, 0), reservation("TICKETS_VOIDED", "VOIDED", "VOIDED", 2, 0)},
			sums{figures.SeatsSold: -3, figures.Voided: 3},
		},
		"given away": {
			reservations{comp("RESERVATION_CREATED", "", "HELD", 5), comp("RESERVATION_CONFIRMED", "", "CONFIRMED", 5)}, sums{figures.Comps: 5},
		},
		"given away, and the event cancelled": {
			reservations{comp("RESERVATION_CANCELLED", "REFUNDED", "CONFIRMED", 1), comp("RESERVATION_CANCELLED", "REFUNDED", "REFUNDED", 4)},
			sums{figures.Comps: -5},
		},
		"given away, and voided": {reservations{comp("TICKETS_VOIDED", "VOIDED", "VOIDED", 5)}, sums{figures.Comps: -5, figures.Voided: 5}},
		"expired":                {reservations{reservation("RESERVATION_EXPIRED", "", "", 2, 10)}, sums{figures.Expired: 1}},
		"rejected":               {reservations{reservation("RESERVATION_REJECTED", "", "", 2, 10)}, sums{figures.Rejected: 1}},
		"checked in":             {reservations{reservation("TICKETS_CHECKED_IN", "", "", 7, 0)}, sums{figures.CheckedIn: 7}},
		"made valid again":       {reservations{reservation("TICKETS_CHECKED_IN", "", "", -1, 0)}, sums{figures.CheckedIn: -1}},
		"an unknown type":        {reservations{reservation("RESERVATION_OF_THE_FUTURE", "", "", 2, 10)}, sums{}},
		"a type of payment":      {reservations{reservation("PAYMENT_CONFIRMED", "", "", 1, 10)}, sums{}},
		"none":                   {nil, sums{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got figures.Delta
			for _, r := range tt.reservations {
				got.AddReservation(r)
			}
			require.Empty(t, cmp.Diff(tt.want, amounts(got)))
		})
	}
}

func TestRewardsAdd(t *testing.T) {
	t.Parallel()
	reward := func(kind, rewardKind string, value int64) figures.Reward {
		return figures.Reward{Event: at(kind), Kind: rewardKind, Value: value}
	}
	type (
		rewards = []figures.Reward
		sums    = map[figures.Figure]int64
	)
	for name, tt := range map[string]struct {
		rewards rewards
		want    sums
	}{
		"points paid":   {rewards{reward("REWARD_PAID", "POINT", 500)}, sums{figures.RewardsPaid: 1, figures.PointsPaid: 500}},
		"a coupon paid": {rewards{reward("REWARD_PAID", "COUPON", 77)}, sums{figures.RewardsPaid: 1}},
		"failed":        {rewards{reward("REWARD_FAILED", "POINT", 500)}, sums{figures.RewardsFailed: 1}},
		"cancelled":     {rewards{reward("REWARD_CANCELLED", "POINT", 500)}, sums{figures.RewardsCancelled: 1}},
		"paid after two failures": {
			rewards{reward("REWARD_FAILED", "", 0), reward("REWARD_FAILED", "", 0), reward("REWARD_PAID", "", 0)},
			sums{figures.RewardsFailed: 2, figures.RewardsPaid: 1},
		},
		"entered":                   {rewards{reward("REWARD_ENTERED", "", 0)}, sums{figures.Entries: 1}},
		"a kind of a later release": {rewards{reward("REWARD_PAID", "TICKET", 3)}, sums{figures.RewardsPaid: 1}},
		"an unknown type":           {rewards{reward("REWARD_OF_THE_FUTURE", "POINT", 1)}, sums{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got figures.Delta
			for _, r := range tt.rewards {
				got.AddReward(r)
			}
			require.Empty(t, cmp.Diff(tt.want, amounts(got)))
		})
	}
}

func TestRequestsAdd(t *testing.T) {
	t.Parallel()
	var got figures.Delta
	for _, kind := range []string{
		"REQUEST_SUCCEEDED", "REQUEST_REJECTED", "REQUEST_SUCCEEDED", "REQUEST_FAILED", "REQUEST_OF_THE_FUTURE", "REQUEST_REJECTED", "REQUEST_REJECTED",
	} {
		got.Add(at(kind))
	}
	want := counted(map[figures.Figure]int64{figures.RequestsSucceeded: 2, figures.RequestsRejected: 3, figures.RequestsFailed: 1})
	require.Empty(t, cmp.Diff(want, got))
}

// Events that Counted excludes are not decoded, so they must add nothing.
func TestCounted(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"RESERVATION_CREATED": true, "RESERVATION_CONFIRMED": true, "RESERVATION_CANCELLED": true, "RESERVATION_EXPIRED": true,
		"RESERVATION_REJECTED": true, "TICKETS_CHECKED_IN": true, "PAYMENT_CONFIRMED": true, "PAYMENT_DECLINED": true, "PAYMENT_REFUNDED": true,
		"TRANSFER_COMPLETED": true, "TRANSFER_CANCELLED": true, "TRANSFER_REJECTED": true, "MEMBERSHIP_ACTIVATED": true,
		"MEMBERSHIP_REJECTED": true, "MEMBERSHIP_ENDED": true,
		"REWARD_ENTERED": true, "REWARD_PAID": true, "REWARD_FAILED": true, "REWARD_CANCELLED": true,
		"REQUEST_SUCCEEDED": true, "REQUEST_REJECTED": true, "REQUEST_FAILED": true, "RESERVATION_OF_THE_FUTURE": false, "": false,
		"TICKETS_REFUND_DUE": false, "PAYMENT_DISPUTED": false, "PAYMENT_DISPUTE_CLOSED": false,
	} {
		require.Equal(t, want, figures.Counted(kind), kind)
	}
}

// Keys are sorted, so that concurrent batches lock their rows in the same order.
func TestKeysAreSorted(t *testing.T) {
	t.Parallel()
	var d figures.Delta
	for _, id := range []string{"c", "a", "b"} {
		for _, later := range []time.Duration{time.Minute, 0, 2 * time.Minute} {
			e := figures.Event{Type: events.ReservationCreated, EventID: id, At: evening.Add(later)}
			d.Add(e)
			for _, currency := range []string{"USD", "KRW"} {
				e.Type = events.PaymentConfirmed
				d.AddPayment(figures.Payment{Event: e, Currency: currency})
			}
		}
	}
	keys := d.Keys()
	require.Len(t, keys, 3*3*3)
	require.True(t, slices.IsSortedFunc(keys, func(a, b figures.Key) int {
		return slices.Compare([]string{a.EventID, a.Minute.String(), string(a.Figure), a.Currency}, []string{b.EventID, b.Minute.String(), string(b.Figure), b.Currency})
	}))
}
