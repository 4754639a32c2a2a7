package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
)

func TestOccupancyFollowsChanges(t *testing.T) {
	t.Parallel()
	e := hall(event.Section{Name: "A", Rows: 1, SeatsPerRow: 9, Capacity: 9}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 3, Capacity: 3})
	now := time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)
	o := event.NewOccupancy(&e)
	require.Equal(t, []byte{0b11111111, 0b11110000}, o.Snapshot(&e, now).Bitmap)

	o.Set(0, event.SeatSold)
	o.Set(1, now.Add(time.Minute).UnixMicro())
	o.Set(10, now.Add(time.Hour).UnixMicro())
	o.Set(99, event.SeatSold) // not a seat
	first := o.Snapshot(&e, now)
	require.Equal(t, []byte{0b00111111, 0b11010000}, first.Bitmap)
	require.Equal(t, []int64{7, 2}, first.Free)
	require.EqualValues(t, 1, first.Sold)

	same := o.Snapshot(&e, now.Add(time.Minute-time.Microsecond))
	require.Equal(t, first.ETag, same.ETag)
	require.Equal(t, now.Add(time.Minute-time.Microsecond), same.At)
	lapsed := o.Snapshot(&e, now.Add(time.Minute))
	require.Equal(t, []byte{0b01111111, 0b11010000}, lapsed.Bitmap, "the hold is over")
	require.NotEqual(t, first.ETag, lapsed.ETag)
	require.Equal(t, first, o.Snapshot(&e, now), "also when the clock is set back")

	o.Set(0, event.SeatFree) // refunded
	o.Set(1, event.SeatSold) // paid
	o.Set(1, event.SeatSold)
	last := o.Snapshot(&e, now)
	require.Equal(t, []byte{0b10111111, 0b11010000}, last.Bitmap)
	require.EqualValues(t, 1, last.Sold)
	require.Equal(t, []byte{0b00111111, 0b11010000}, first.Bitmap, "a snapshot never changes")
}
