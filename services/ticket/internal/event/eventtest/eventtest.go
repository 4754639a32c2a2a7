// Package eventtest makes snapshots for tests.
package eventtest

import (
	"time"

	"urr.guru/services/ticket/internal/event"
)

// Taken is the snapshot of an event of which the seats of these indexes are sold.
func Taken(e event.Event, at time.Time, seats ...int32) event.Snapshot {
	o := event.NewOccupancy(&e)
	for _, i := range seats {
		o.Set(i, event.SeatSold)
	}
	return o.Snapshot(&e, at)
}
