package figures_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/services/stats/internal/figures"
)

// lateEvening is still the 20th in UTC and already the 21st in Seoul.
var lateEvening = time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC)

func TestAddReservation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   figures.Reservation
		want figures.Counts
	}{
		"created":   {figures.Reservation{Type: figures.ReservationCreated, Quantity: 2}, figures.Counts{Created: 1}},
		"confirmed": {figures.Reservation{Type: figures.ReservationConfirmed, Quantity: 2}, figures.Counts{Confirmed: 1, SeatsSold: 2}},
		"cancelled by its holder": {
			figures.Reservation{Type: figures.ReservationCancelled, Quantity: 2, Reason: "USER"}, figures.Counts{Cancelled: 1},
		},
		"refunded": {
			figures.Reservation{Type: figures.ReservationCancelled, Quantity: 2, Reason: figures.ReasonRefunded},
			figures.Counts{Cancelled: 1, SeatsSold: -2},
		},
		"expired":  {figures.Reservation{Type: figures.ReservationExpired, Quantity: 2}, figures.Counts{Expired: 1}},
		"rejected": {figures.Reservation{Type: figures.ReservationRejected, Quantity: 2}, figures.Counts{Rejected: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.EventID, tt.in.At = "e", lateEvening
			var d figures.Delta
			d.AddReservation(tt.in)
			day := figures.Day{EventID: "e", Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
			require.Empty(t, cmp.Diff(map[figures.Day]figures.Counts{day: tt.want}, d.Counts))
		})
	}
}

// The day changes at midnight in Seoul, 15:00 UTC, wherever the event's time was written.
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
		d.AddReservation(figures.Reservation{Type: figures.ReservationCreated, EventID: "e", At: tt.at})
		d.AddPayment(figures.Payment{Type: figures.PaymentConfirmed, EventID: "e", Currency: "KRW", At: tt.at})
		require.Equal(t, tt.want, d.Days()[0].Date.Format(time.DateOnly))
		require.Equal(t, tt.want, d.Monies()[0].Date.Format(time.DateOnly))
	}
}

func TestAddPayment(t *testing.T) {
	t.Parallel()
	var d figures.Delta
	for _, p := range []figures.Payment{
		{Type: figures.PaymentConfirmed, PaymentType: "reservation", Currency: "KRW", Amount: 55000},
		{Type: figures.PaymentConfirmed, PaymentType: "", Currency: "KRW", Amount: 45000},
		{Type: figures.PaymentConfirmed, PaymentType: "transfer", Currency: "KRW", Amount: 7},
		{Type: figures.PaymentRefunded, PaymentType: "reservation", Currency: "KRW", Amount: 55000},
		{Type: figures.PaymentRefunded, PaymentType: "reservation", Cause: figures.CauseTransfer, Currency: "KRW", Amount: 7},
		{Type: "PAYMENT_OF_THE_FUTURE", Currency: "KRW", Amount: 1},
	} {
		p.EventID, p.At = "e", lateEvening
		d.AddPayment(p)
	}
	require.Len(t, d.Revenue, 1)
	got := d.Revenue[d.Monies()[0]]
	require.Empty(t, cmp.Diff(figures.Revenue{Confirmed: 100000, Payments: 2, Refunded: 55000, Refunds: 1}, got))
	require.Equal(t, int64(45000), got.Net())
}

func TestUnknownEventsLeaveNoRow(t *testing.T) {
	t.Parallel()
	var d figures.Delta
	d.AddReservation(figures.Reservation{Type: "RESERVATION_OF_THE_FUTURE", EventID: "e", At: lateEvening})
	require.Empty(t, d.Days())
}

func TestKeysAreSorted(t *testing.T) {
	t.Parallel()
	var d figures.Delta
	for _, id := range []string{"c", "a", "b"} {
		d.AddReservation(figures.Reservation{Type: figures.ReservationCreated, EventID: id, At: lateEvening})
	}
	var got []string
	for _, day := range d.Days() {
		got = append(got, day.EventID)
	}
	require.Equal(t, []string{"a", "b", "c"}, got)
}
