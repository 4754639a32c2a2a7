package outbox

import (
	"context"
	"errors"
	"time"
)

// ReadRows is the query of a batch that follows rows in flight.
const ReadRows = readRows

// MaxBytes is the largest size of the batches of a backlog.
const MaxBytes = maxBytes

// ShortenPauses shortens the pauses between sessions, lock attempts and retries.
func (r *Relay) ShortenPauses() {
	r.reconnect, r.lockEvery, r.retryMin = 10*time.Millisecond, 20*time.Millisecond, 2*time.Millisecond
}

// Scan replaces the 5,000 rows that one read covers while partitions are in back-off.
func (r *Relay) Scan(rows int) { r.scan = rows }

// DrainTimeout replaces the 3 s for which a stopping relay still publishes.
func (r *Relay) DrainTimeout(d time.Duration) { r.drainTimeout = d }

// SessionIdle replaces the 10 s after which the server ends the session of a relay that hangs.
func (r *Relay) SessionIdle(d time.Duration) { r.sessionIdle = d }

// Pass runs one pass in a session of its own. It returns the number of published events, and
// whether rows wait for the end of a transaction.
func (r *Relay) Pass(ctx context.Context) (published int, blocked bool, err error) {
	s, err := r.openSession(ctx)
	if err != nil {
		return 0, false, err
	}
	defer s.close(ctx)
	published, err = r.publishBatch(ctx, s)
	return published, s.blocked, errors.Join(err, s.flush(ctx))
}

// Measure sets the gauges as of now.
func (r *Relay) Measure(ctx context.Context, now time.Time) error { return r.measure(ctx, &now) }

// DecodeHeaders reads the headers of a row.
var DecodeHeaders = decodeHeaders
