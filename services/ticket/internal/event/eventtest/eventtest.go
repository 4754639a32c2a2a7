// Package eventtest makes values of event.Snapshot, the seats of an event, for tests.
package eventtest

import (
	"time"

	"urr.guru/services/ticket/internal/event"
)

// SnapshotWithSold returns the snapshot of an event whose seats with these indexes are sold.
func SnapshotWithSold(e event.Event, at time.Time, soldSeats ...int32) event.Snapshot {
	o := event.NewOccupancy(&e)
	for _, i := range soldSeats {
		o.Set(i, event.SeatSold)
	}
	return o.Snapshot(&e, at)
}
