package dynamo

import (
	"time"

	"github.com/google/uuid"
)

// SetFlushTimeout sets the time limit of writing queued claims at the end of Run.
func (c *Claims) SetFlushTimeout(d time.Duration) { c.flushTimeout = d }

// PositionPartition returns the partition key of a position.
func PositionPartition(eventID string, id uuid.UUID) string {
	return positionIDOf(eventID, id).partition
}
