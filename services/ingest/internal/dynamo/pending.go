package dynamo

import (
	"context"
	"slices"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const markersPerPage = 100 // how many markers the sweeper reads at once

func (s *Store) AcquireLease(ctx context.Context, slice string) (bool, error) {
	return s.leases.Acquire(ctx, slice)
}

func (s *Store) Markers(ctx context.Context, partition int, before int64, cursor string) (page []promotion.Marker, next string, err error) {
	items, more, err := s.Query(ctx, table.PartitionQuery{
		PK: table.MarkerPartition(partition), Below: table.MarkersBefore(before), After: cursor, Limit: markersPerPage,
	})
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		m, err := table.DecodeMarker(it)
		if err != nil {
			s.ReportSkipped(ctx, it, err)
		}
		if m.RequestID != "" { // the id is enough to send the request again
			page = append(page, m)
		}
	}
	if more && len(items) > 0 {
		next = table.SortKey(items[len(items)-1])
	}
	return page, next, nil
}

func (s *Store) ReadMarked(ctx context.Context, markers []promotion.Marker) (request.MarkedRequests, error) {
	marked := request.MarkedRequests{
		Requests: map[string]promotion.Request{}, Capacities: map[string]promotion.Capacity{}, Counters: map[string]promotion.EntryCounter{},
		Voided: map[string]bool{},
	}
	keys := make([]dynamo.Item, len(markers))
	for i, m := range markers {
		keys[i] = table.RequestKey(m.RequestID)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return marked, err
	}
	for _, m := range markers {
		if it := items.Get(table.RequestKey(m.RequestID)); it != nil {
			r, err := table.DecodeRequest(it)
			if err != nil {
				r = promotion.Request{} // so that the other requests are handled
			}
			marked.Requests[m.RequestID] = r
		}
	}
	return marked, s.readDecisionState(ctx, &marked)
}

// readDecisionState reads what may decide that a request is rejected: the capacity of its
// promotion, or the draw of a lottery and its counter of entries.
func (s *Store) readDecisionState(ctx context.Context, marked *request.MarkedRequests) error {
	var keys []dynamo.Item
	for _, r := range marked.Requests {
		switch {
		case r.Status == "" || r.Status.Final():
		case r.EventType == promotion.Lottery:
			keys = append(keys, table.EntryCounterKey(r.EventID, promotion.LotteryGroup(r.RequestID)), table.DrawKey(r.EventID))
		default:
			keys = append(keys, table.CapacityKey(r.EventID))
		}
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return err
	}
	for _, r := range marked.Requests {
		s.addDecisionState(ctx, marked, &r, items)
	}
	return nil
}

// addDecisionState adds to marked what may decide about request r. It leaves out items that cannot
// be decoded; the sweeper then does not reject r at once.
func (s *Store) addDecisionState(ctx context.Context, marked *request.MarkedRequests, r *promotion.Request, items table.Items) {
	if it := items.Get(table.CapacityKey(r.EventID)); it != nil {
		if c, err := table.DecodeCapacity(it); err == nil {
			marked.Capacities[r.EventID] = c
		} else {
			s.ReportSkipped(ctx, it, err)
		}
	}
	if it := items.Get(table.DrawKey(r.EventID)); it != nil {
		if d, err := table.DecodeDraw(r.EventID, it); err == nil {
			marked.Voided[r.EventID] = d.Phase == promotion.DrawVoid
		} else {
			s.ReportSkipped(ctx, it, err)
		}
	}
	if it := items.Get(table.EntryCounterKey(r.EventID, promotion.LotteryGroup(r.RequestID))); it != nil {
		if c, err := table.DecodeEntryCounter(it); err == nil {
			marked.Counters[promotion.MessageOf(r).Group()] = c
		} else {
			s.ReportSkipped(ctx, it, err)
		}
	}
}

func (s *Store) DeleteMarkers(ctx context.Context, markers []promotion.Marker) error {
	for chunk := range slices.Chunk(markers, dynamo.MaxTransaction) {
		tx := s.Begin()
		for _, m := range chunk {
			tx.Delete(table.Shared, table.MarkerKey(&m), table.Condition{})
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) EndUnreadable(ctx context.Context, m promotion.Marker) error {
	l := promotion.NewDeadLetter(m.RequestID, m.RequestedAt)
	l.ErrorCode, l.ErrorMessage = string(promotion.FailedSerde), "the request cannot be read, and its message was not received"
	return s.Store.EndUnreadable(ctx, promotion.Message{RequestID: m.RequestID, EventID: m.EventID}, l)
}

// endChunk is how many requests one transaction can end. Each request needs up to seven items: the
// request, its log, marker, lock and exclusion, and the figures and the draw of its event. One more
// item has the announcements of all these requests.
const endChunk = (dynamo.MaxTransaction - 1) / 7

func (s *Store) End(ctx context.Context, ends []promotion.Change) error {
	for chunk := range slices.Chunk(ends, endChunk) {
		if err := s.endAll(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// endAll ends requests in one transaction. It skips requests that have changed since they were
// read.
func (s *Store) endAll(ctx context.Context, ends []promotion.Change) error {
	locks, err := s.locksOfFailed(ctx, ends)
	if err != nil {
		return err
	}
	for len(ends) > 0 {
		tx := s.Begin()
		for i, c := range ends {
			tx.Change(i, c)
			// A lock with a number of withdrawals is kept, so that the next application keeps the number.
			if l, held := locks[c.After.RequestID]; held && l.Withdrawals == 0 {
				tx.Delete(i, table.LockKey(c.After.EventID, c.After.UserID), table.LockUnchanged(&l))
			}
		}
		err := tx.Commit(ctx)
		if err == nil {
			return nil
		}
		changed := tx.Failed(err)
		if len(changed) == 0 {
			return err
		}
		var remaining []promotion.Change
		for i, c := range ends {
			if !changed[i] {
				remaining = append(remaining, c)
			}
		}
		ends = remaining
	}
	return nil
}

// locksOfFailed reads the locks of the users whose requests fail, and returns them by request id.
func (s *Store) locksOfFailed(ctx context.Context, ends []promotion.Change) (map[string]promotion.Lock, error) {
	var keys []dynamo.Item
	for _, c := range ends {
		if c.After.Status == promotion.FailedFinal {
			keys = append(keys, table.LockKey(c.After.EventID, c.After.UserID))
		}
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	locks := make(map[string]promotion.Lock, len(items))
	for _, it := range items {
		l, err := table.DecodeLock(it)
		if err != nil { // the request ends all the same, and the lock is kept
			s.ReportSkipped(ctx, it, err)
			continue
		}
		locks[l.RequestID] = l
	}
	return locks, nil
}
