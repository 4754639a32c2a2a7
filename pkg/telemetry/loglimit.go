package telemetry

import (
	"sync/atomic"
	"time"
)

// maxLines is how many lines per second are logged for one reason. So neither an attack nor the
// outage of a service that a million visitors poll overloads the log.
const maxLines = 10

// otherReason stands for all reasons that were not passed to NewLogLimit. They share one count, so
// that made-up reasons take no memory.
const otherReason = "other"

// LogLimit limits how many lines are logged for each reason. It is safe for concurrent use.
type LogLimit struct{ counts map[string]*logCount }

type logCount struct{ second, written, suppressed atomic.Int64 }

// NewLogLimit makes a LogLimit for the reasons. All other reasons share one count.
func NewLogLimit(reasons ...string) *LogLimit {
	l := &LogLimit{counts: map[string]*logCount{otherReason: {}}}
	for _, reason := range reasons {
		l.counts[reason] = &logCount{}
	}
	return l
}

// Allow reports whether a line may be written now, and how many lines with its reason were omitted
// since the last one.
func (l *LogLimit) Allow(reason string) (suppressed int64, ok bool) {
	c := l.counts[reason]
	if c == nil {
		c = l.counts[otherReason]
	}
	now := time.Now().Unix()
	if s := c.second.Load(); s != now && c.second.CompareAndSwap(s, now) {
		c.written.Store(0)
	}
	if c.written.Add(1) > maxLines {
		c.suppressed.Add(1)
		return 0, false
	}
	return c.suppressed.Swap(0), true
}
