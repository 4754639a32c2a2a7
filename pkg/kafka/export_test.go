package kafka

import "time"

// Impatient lets a consumer try again without waiting, for tests that go through every attempt.
func (c *Consumer) Impatient() { c.backoff = time.Microsecond }
