package dynamo

import "time"

// SetFlushTimeout sets the time limit of writing queued claims at the end of Run.
func (c *Claims) SetFlushTimeout(d time.Duration) { c.flushTimeout = d }
