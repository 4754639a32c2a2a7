package dynamo

import "time"

// SetFlushTimeout sets the timeout of the flush at the end of Run.
func (c *Claims) SetFlushTimeout(d time.Duration) { c.flushTimeout = d }
