package figures_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/proto/events"
	"urr.guru/services/stats/internal/figures"
)

// lateEvening is still the 20th in UTC and already the 21st in Seoul.
var lateEvening = time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC)

// november21 is event e on the day in Seoul of lateEvening.
var november21 = figures.Day{EventID: "e", Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}

// What each type of event adds, and what adds nothing. Other packages take this for granted.
func TestReservationsAdd(t *testing.T) {
	t.Parallel()
	type reservations = []figures.Reservation
	for name, tt := range map[string]struct {
		reservations reservations
		want         figures.Counts
	}{
		"created":   {reservations{{Type: "RESERVATION_CREATED", Quantity: 2}}, figures.Counts{Created: 1}},
		"confirmed": {reservations{{Type: "RESERVATION_CONFIRMED", Quantity: 2}}, figures.Counts{Confirmed: 1, SeatsSold: 2}},
		"cancelled by its holder": {
			reservations{{Type: "RESERVATION_CANCELLED", Quantity: 2, Reason: "USER"}}, figures.Counts{Cancelled: 1},
		},
		"cancelled by a refund": {
			reservations{{Type: "RESERVATION_CANCELLED", Quantity: 2, Reason: "REFUNDED"}}, figures.Counts{Cancelled: 1, SeatsSold: -2},
		},
		"refunded place by place": {
			reservations{
				{Type: "RESERVATION_CONFIRMED", Quantity: 3},
				{Type: "RESERVATION_CANCELLED", Quantity: 1, Reason: "REFUNDED", Status: "CONFIRMED"},
				{Type: "RESERVATION_CANCELLED", Quantity: 2, Reason: "REFUNDED", Status: "REFUNDED"},
			},
			figures.Counts{Confirmed: 1, Cancelled: 1},
		},
		"one place of three refunded": {
			reservations{{Type: "RESERVATION_CANCELLED", Quantity: 1, Reason: "REFUNDED", Status: "CONFIRMED"}}, figures.Counts{SeatsSold: -1},
		},
		"expired":  {reservations{{Type: "RESERVATION_EXPIRED", Quantity: 2}}, figures.Counts{Expired: 1}},
		"rejected": {reservations{{Type: "RESERVATION_REJECTED", Quantity: 2}}, figures.Counts{Rejected: 1}},
		"several, in any order": {
			reservations{
				{Type: "RESERVATION_CONFIRMED", Quantity: 2}, {Type: "RESERVATION_CREATED", Quantity: 2}, {Type: "RESERVATION_CREATED", Quantity: 4},
				{Type: "RESERVATION_EXPIRED", Quantity: 4}, {Type: "RESERVATION_CANCELLED", Quantity: 1, Reason: "REFUNDED"},
			},
			figures.Counts{Created: 2, Confirmed: 1, Expired: 1, Cancelled: 1, SeatsSold: 1},
		},
		"an unknown type":   {reservations{{Type: "RESERVATION_OF_THE_FUTURE", Quantity: 2}}, figures.Counts{}},
		"a type of payment": {reservations{{Type: "PAYMENT_CONFIRMED", Quantity: 1}}, figures.Counts{}},
		"none":              {nil, figures.Counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want, got figures.Delta
			if tt.want != (figures.Counts{}) {
				want.Counts = map[figures.Day]figures.Counts{november21: tt.want}
			}
			for _, r := range tt.reservations {
				r.EventID, r.At = "e", lateEvening
				got.AddReservation(r)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestPaymentsAdd(t *testing.T) {
	t.Parallel()
	type payments = []figures.Payment
	for name, tt := range map[string]struct {
		payments payments
		want     figures.Revenue
	}{
		"paid": {
			payments{{Type: "PAYMENT_CONFIRMED", PaymentType: "reservation", Amount: 55000}}, figures.Revenue{Confirmed: 55000, Payments: 1},
		},
		"paid for a membership": {
			payments{{Type: "PAYMENT_CONFIRMED", PaymentType: "membership", Amount: 7}}, figures.Revenue{Confirmed: 7, Payments: 1},
		},
		"paid without a payment type": {payments{{Type: "PAYMENT_CONFIRMED", Amount: 7}}, figures.Revenue{Confirmed: 7, Payments: 1}},
		"refunded": {
			payments{{Type: "PAYMENT_REFUNDED", PaymentType: "reservation", Amount: 55000}}, figures.Revenue{Refunded: 55000, Refunds: 1},
		},
		"several, in any order": {
			payments{
				{Type: "PAYMENT_REFUNDED", Amount: 1000}, {Type: "PAYMENT_CONFIRMED", Amount: 1000}, {Type: "PAYMENT_CONFIRMED", Amount: 2000},
			},
			figures.Revenue{Confirmed: 3000, Payments: 2, Refunded: 1000, Refunds: 1},
		},
		"refunded by hand": {
			payments{{Type: "PAYMENT_REFUNDED", PaymentType: "reservation", Cause: "BY_HAND", Amount: 1000}}, figures.Revenue{Refunded: 1000, Refunds: 1},
		},
		"paid for a transfer": {payments{{Type: "PAYMENT_CONFIRMED", PaymentType: "transfer", Amount: 7}}, figures.Revenue{}},
		"paid out after a transfer": {
			payments{{Type: "PAYMENT_REFUNDED", PaymentType: "reservation", Cause: "TRANSFER", Amount: 7}}, figures.Revenue{},
		},
		"an unknown type":       {payments{{Type: "PAYMENT_OF_THE_FUTURE", Amount: 1}}, figures.Revenue{}},
		"a type of reservation": {payments{{Type: "RESERVATION_CREATED", Amount: 1}}, figures.Revenue{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want, got figures.Delta
			if tt.want != (figures.Revenue{}) {
				want.Revenue = map[figures.RevenueKey]figures.Revenue{{Day: november21, Currency: "KRW"}: tt.want}
			}
			for _, p := range tt.payments {
				p.EventID, p.At, p.Currency = "e", lateEvening, "KRW"
				got.AddPayment(p)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestRewardsAdd(t *testing.T) {
	t.Parallel()
	type rewards = []figures.Reward
	for name, tt := range map[string]struct {
		rewards rewards
		want    figures.RewardCounts
	}{
		"points paid":               {rewards{{Type: "REWARD_PAID", Kind: "POINT", Value: 500}}, figures.RewardCounts{Paid: 1, PointsPaid: 500}},
		"a coupon paid":             {rewards{{Type: "REWARD_PAID", Kind: "COUPON", Value: 77}}, figures.RewardCounts{Paid: 1}},
		"failed":                    {rewards{{Type: "REWARD_FAILED", Kind: "POINT", Value: 500}}, figures.RewardCounts{Failed: 1}},
		"cancelled":                 {rewards{{Type: "REWARD_CANCELLED", Kind: "POINT", Value: 500}}, figures.RewardCounts{Cancelled: 1}},
		"paid after two failures":   {rewards{{Type: "REWARD_FAILED"}, {Type: "REWARD_FAILED"}, {Type: "REWARD_PAID"}}, figures.RewardCounts{Failed: 2, Paid: 1}},
		"several, in any order":     {rewards{{Type: "REWARD_PAID", Kind: "POINT", Value: 7}, {Type: "REWARD_CANCELLED"}, {Type: "REWARD_PAID", Kind: "POINT", Value: 8}}, figures.RewardCounts{Paid: 2, Cancelled: 1, PointsPaid: 15}},
		"a kind of a later release": {rewards{{Type: "REWARD_PAID", Kind: "TICKET", Value: 3}}, figures.RewardCounts{Paid: 1}},
		"an unknown type":           {rewards{{Type: "REWARD_OF_THE_FUTURE", Kind: "POINT", Value: 1}}, figures.RewardCounts{}},
		"a type of payment":         {rewards{{Type: "PAYMENT_CONFIRMED", Kind: "POINT", Value: 1}}, figures.RewardCounts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want, got figures.Delta
			if tt.want != (figures.RewardCounts{}) {
				want.Rewards = map[figures.Day]figures.RewardCounts{november21: tt.want}
			}
			for _, r := range tt.rewards {
				r.EventID, r.At = "e", lateEvening
				got.AddReward(r)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestRequestsAdd(t *testing.T) {
	t.Parallel()
	var got figures.Delta
	for _, kind := range []string{
		"REQUEST_SUCCEEDED", "REQUEST_REJECTED", "REQUEST_SUCCEEDED", "REQUEST_FAILED", "REQUEST_OF_THE_FUTURE", "REWARD_PAID", "REQUEST_REJECTED",
		"REQUEST_REJECTED",
	} {
		got.AddRequest(figures.Request{Type: kind, EventID: "p", At: lateEvening})
	}
	day := november21
	day.EventID = "p"
	require.Empty(t, cmp.Diff(figures.Delta{Requests: map[figures.Day]figures.RequestCounts{day: {Succeeded: 2, Rejected: 3, Failed: 1}}}, got))
}

func TestNet(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(45000), figures.Revenue{Confirmed: 100000, Refunded: 55000}.Net())
}

// Events that Counted excludes are not decoded, so they must add nothing.
func TestCounted(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"RESERVATION_CREATED": true, "RESERVATION_CONFIRMED": true, "RESERVATION_CANCELLED": true, "RESERVATION_EXPIRED": true,
		"RESERVATION_REJECTED": true, "PAYMENT_CONFIRMED": true, "PAYMENT_REFUNDED": true,
		"REWARD_PAID": true, "REWARD_FAILED": true, "REWARD_CANCELLED": true,
		"REQUEST_SUCCEEDED": true, "REQUEST_REJECTED": true, "REQUEST_FAILED": true, "RESERVATION_OF_THE_FUTURE": false, "": false,
	} {
		require.Equal(t, want, figures.Counted(kind), kind)
	}
}

// The day changes at midnight in Seoul, 15:00 UTC, whatever the time zone of the event's time.
func TestDaysBeginAtMidnightInSeoul(t *testing.T) {
	t.Parallel()
	newYork := time.FixedZone("UTC-5", -5*60*60)
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 12, 31, 14, 59, 59, 999_999_999, time.UTC), "2026-12-31"},
		{time.Date(2026, 12, 31, 15, 0, 0, 0, time.UTC), "2027-01-01"},
		{time.Date(2026, 12, 31, 10, 0, 0, 0, newYork), "2027-01-01"},
		{time.Date(2027, 1, 1, 14, 59, 59, 0, time.UTC), "2027-01-01"},
	} {
		var d figures.Delta
		d.AddReservation(figures.Reservation{Type: events.ReservationCreated, EventID: "e", At: tt.at})
		d.AddPayment(figures.Payment{Type: events.PaymentConfirmed, EventID: "e", Currency: "KRW", At: tt.at})
		d.AddReward(figures.Reward{Type: events.RewardPaid, EventID: "e", At: tt.at})
		d.AddRequest(figures.Request{Type: events.RequestFailed, EventID: "e", At: tt.at})
		require.Equal(t, tt.want, figures.Days(d.Counts)[0].Date.Format(time.DateOnly))
		require.Equal(t, tt.want, figures.Days(d.Rewards)[0].Date.Format(time.DateOnly))
		require.Equal(t, tt.want, figures.Days(d.Requests)[0].Date.Format(time.DateOnly))
		require.Equal(t, tt.want, figures.RevenueKeys(d.Revenue)[0].Date.Format(time.DateOnly))
	}
}

// Concurrent batches lock their rows in key order.
func TestKeysAreSorted(t *testing.T) {
	t.Parallel()
	var d figures.Delta
	for _, id := range []string{"c", "a", "b"} {
		d.AddReservation(figures.Reservation{Type: events.ReservationCreated, EventID: id, At: lateEvening})
		d.AddReward(figures.Reward{Type: events.RewardPaid, EventID: id, At: lateEvening})
		d.AddRequest(figures.Request{Type: events.RequestSucceeded, EventID: id, At: lateEvening})
		for _, currency := range []string{"USD", "KRW"} {
			d.AddPayment(figures.Payment{Type: events.PaymentConfirmed, EventID: id, Currency: currency, At: lateEvening})
		}
	}
	var days, rewards, requests, monies []string
	for _, day := range figures.Days(d.Counts) {
		days = append(days, day.EventID)
	}
	for _, day := range figures.Days(d.Rewards) {
		rewards = append(rewards, day.EventID)
	}
	for _, day := range figures.Days(d.Requests) {
		requests = append(requests, day.EventID)
	}
	for _, m := range figures.RevenueKeys(d.Revenue) {
		monies = append(monies, m.EventID+" "+m.Currency)
	}
	require.Equal(t, []string{"a", "b", "c"}, days)
	require.Equal(t, days, rewards)
	require.Equal(t, days, requests)
	require.Equal(t, []string{"a KRW", "a USD", "b KRW", "b USD", "c KRW", "c USD"}, monies)
}
