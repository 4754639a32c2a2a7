package outbox

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	// scanRows is how many rows one read looks at while partitions are in back-off: their rows may
	// be a million.
	scanRows    = 5000
	scanRowsMax = 1 << 20
	// againAfter is the shortest time after which the table is looked through from its first row
	// again; a walk that took long is repeated after againTimes its time.
	againAfter = 5 * time.Second
	againTimes = 20
)

// walk is how far the relay has come through the rows of partitions in back-off, so that it does
// not pass over all of them each time. Without such partitions there is none: then the first rows
// of the table are always those to publish.
//
// A row may become visible behind others with higher ids, so the walk passes an id only when no
// transaction is under way any more that may insert one up to it: when all that had begun at a time
// when the table ended at that id have ended. Writers have their txid (they have locked the
// entity's row) before the row has its id, so whoever begins later gets a higher id. Should one
// break that rule, its row is found by the next walk.
type walk struct {
	from  int64 // the rows up to here are left out
	bound int64 // no transaction under way inserts a row up to here
	// mark is a bound to be: as soon as xmin has reached the xmax of the time when the table ended
	// there.
	mark struct {
		id   int64
		xmax uint64
	}
	until  int64 // of the present read
	end    int64 // of the table
	scan   int
	began  time.Time
	whole  bool          // it has come to the table's end
	took   time.Duration // by the last one to get there
	shards int
	parked string
}

// step sets what the next read looks at.
func (s *session) step(ctx context.Context, scan int) error {
	w := &s.walk
	old := w.whole && time.Since(w.began) > max(againAfter, againTimes*w.took)
	if w.began.IsZero() || old || s.stalls.shrunk || w.shards != len(s.shards) {
		s.walk = walk{scan: scan, began: time.Now(), took: w.took, shards: len(s.shards), bound: w.bound, mark: w.mark, parked: w.parked}
		s.stalls.shrunk = false
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var (
		xmin, xmax uint64
		parked     string
	)
	err := s.conn.QueryRow(ctx, `
		SELECT coalesce(max(c.id), 0), coalesce((SELECT max(id) FROM outbox), 0),
		       pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		       (SELECT count(*) || ' ' || coalesce(max(parked_at)::text, '') FROM outbox_parked)
		FROM (SELECT id FROM outbox WHERE id > $1 ORDER BY id LIMIT $2) AS c`,
		w.from, w.scan).Scan(&w.until, &w.end, &xmin, &xmax, &parked)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	if xmin >= w.mark.xmax {
		w.bound = w.mark.id
		w.mark.id, w.mark.xmax = w.end, xmax
	}
	if parked == w.parked {
		return nil
	}
	w.parked = parked
	if w.from > 0 { // redriven, perhaps: then the rows are to be found anew
		w.from = 0
		return s.step(ctx, scan)
	}
	return nil
}

// stepped notes what a read has found: of the rows that it looked at, those before the first one
// returned are left out. more tells that there are others to look at.
func (w *walk) stepped(found []row, scan int) (more bool) {
	next := min(w.bound, w.until)
	if len(found) > 0 {
		next = min(next, found[0].ID-1)
	}
	more = len(found) == 0 && w.until < w.end
	switch {
	case next > w.from:
		w.from, w.scan = next, scan
	case more: // a transaction under way keeps the walk back: then further at one go
		w.scan = min(2*w.scan, scanRowsMax)
		more = w.scan < scanRowsMax
	}
	if w.until >= w.end && !w.whole {
		w.whole, w.took = true, time.Since(w.began)
	}
	return more
}

// everything is a walk's until when no row is left out.
const everything = math.MaxInt64
