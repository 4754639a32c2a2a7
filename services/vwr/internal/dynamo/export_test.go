package dynamo

import "time"

// SetFlushTimeout lets the flush at the end of Run take longer than in production.
func (c *Claims) SetFlushTimeout(d time.Duration) { c.flushFor = d }
