package outbox

import (
	"context"
	"fmt"
	"time"
)

const (
	// scanRows is how many rows one read covers at first while partitions are in back-off, scanRowsMax
	// the most that it covers. It may have to skip a million rows of these partitions.
	scanRows    = 5000
	scanRowsMax = 1 << 20
	// rewalkAfter is the shortest time after which reading starts at the table's first row again. A
	// slow walk is repeated only after rewalkFactor times its duration.
	rewalkAfter  = 5 * time.Second
	rewalkFactor = 20
)

// tableWalk is the relay's position in a table that holds rows of partitions in back-off, so that
// it does not skip the same rows in every read. Without such partitions there is no walk: the first
// rows of the table are always the ones to publish.
//
// A row may become visible after rows with higher ids. The walk therefore passes an id only when no
// running transaction can still insert a lower one: when all transactions have ended that had begun
// while the table ended at that id. Writers have their txid (they locked the entity's row) before
// the row gets its id, so a transaction that begins later inserts a higher id. A row that breaks
// this rule is found by the next walk.
type tableWalk struct {
	from  int64 // rows up to this id are not read again
	bound int64 // no running transaction can insert a row up to this id
	// mark is the candidate for the next bound: the last id of the table in an earlier snapshot,
	// and the xmax of that snapshot. The id becomes the bound once a later snapshot has an xmin of
	// at least that xmax: then every transaction that could insert a lower id has ended.
	mark struct {
		id   int64
		xmax uint64
	}
	until      int64 // last id of the current read
	end        int64 // last id of the table
	scan       int   // how many rows the current read covers
	began      time.Time
	reachedEnd bool          // the end of the table was reached
	took       time.Duration // duration of the last complete walk
	parked     string
}

// advanceWalk chooses the range of ids that the next read covers.
func (s *relaySession) advanceWalk(ctx context.Context, scan int) error {
	w := &s.walk
	old := w.reachedEnd && time.Since(w.began) > max(rewalkAfter, rewalkFactor*w.took)
	if w.began.IsZero() || old || s.stalls.rescan {
		s.walk = tableWalk{scan: scan, began: time.Now(), took: w.took, bound: w.bound, mark: w.mark, parked: w.parked}
		s.stalls.rescan = false
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
	if w.from > 0 { // an operator may have redriven a key, so its rows must be found again
		w.from = 0
		return s.advanceWalk(ctx, scan)
	}
	return nil
}

// recordRead advances the walk past the rows that a read covered, up to the first row that the read
// returned. more reports that there are further rows to read.
func (w *tableWalk) recordRead(found []row, scan int) (more bool) {
	next := min(w.bound, w.until)
	if len(found) > 0 {
		next = min(next, found[0].ID-1)
	}
	more = len(found) == 0 && w.until < w.end
	switch {
	case next > w.from:
		w.from, w.scan = next, scan
	case more: // a running transaction holds the walk back: read a wider range
		w.scan = min(2*w.scan, scanRowsMax)
		more = w.scan < scanRowsMax
	}
	if w.until >= w.end && !w.reachedEnd {
		w.reachedEnd, w.took = true, time.Since(w.began)
	}
	return more
}
