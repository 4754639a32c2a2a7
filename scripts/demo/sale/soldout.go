package sale

import (
	"fmt"
	"time"
)

// soldOutClock tells how long after the opening a sale was sold out for good: tickets that are given
// back later start it anew.
type soldOutClock struct {
	after time.Duration // 0: it is not sold out
}

// record takes a sample of the sale.
func (c *soldOutClock) record(elapsed time.Duration, soldOut bool) {
	switch {
	case !soldOut:
		c.after = 0
	case c.after == 0:
		c.after = elapsed
	}
}

func (c *soldOutClock) seconds() float64 { return c.after.Seconds() }

func (c *soldOutClock) String() string {
	if c.after == 0 {
		return "never"
	}
	return fmt.Sprintf("%.1f s after the opening", c.seconds())
}
