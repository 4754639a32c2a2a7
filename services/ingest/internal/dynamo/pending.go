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

func (s *Store) ReadMarked(ctx context.Context, markers []promotion.Marker) (map[string]promotion.Request, error) {
	keys := make([]dynamo.Item, len(markers))
	for i, m := range markers {
		keys[i] = table.RequestKey(m.RequestID)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	requests := make(map[string]promotion.Request, len(items))
	for _, m := range markers {
		if it := items.Get(table.RequestKey(m.RequestID)); it != nil {
			r, err := table.DecodeRequest(it)
			if err != nil {
				r = promotion.Request{} // so that the other requests are handled
			}
			requests[m.RequestID] = r
		}
	}
	return requests, nil
}

func (s *Store) ReadGroups(ctx context.Context, messages []promotion.Message) (map[string]request.GroupState, error) {
	var keys []dynamo.Item
	for _, m := range messages {
		if m.EventType == promotion.Lottery {
			keys = append(keys, table.EntryCounterKey(m.EventID, promotion.LotteryGroup(m.RequestID)), table.DrawKey(m.EventID))
		} else {
			keys = append(keys, table.CapacityKey(m.EventID))
		}
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	states := map[string]request.GroupState{}
	for _, m := range messages {
		if _, known := states[m.Group()]; !known {
			states[m.Group()] = s.groupState(ctx, m, items)
		}
	}
	return states, nil
}

// groupState decodes the state of the group of a message from the capacity of its promotion, or from
// the draw of a lottery and its counter of entries. The state lacks what cannot be decoded.
func (s *Store) groupState(ctx context.Context, m promotion.Message, items table.Items) (g request.GroupState) {
	if m.EventType == promotion.Lottery {
		return s.entryGroupState(ctx, m, items)
	}
	it := items.Get(table.CapacityKey(m.EventID))
	if it == nil {
		return g
	}
	c, err := table.DecodeCapacity(it)
	if err != nil {
		s.ReportSkipped(ctx, it, err)
		return g
	}
	if g.SentAt = c.SentAt; c.Remaining == 0 {
		g.Rejection = promotion.RejectedCapacity
	}
	return g
}

func (s *Store) entryGroupState(ctx context.Context, m promotion.Message, items table.Items) (g request.GroupState) {
	it := items.Get(table.EntryCounterKey(m.EventID, promotion.LotteryGroup(m.RequestID)))
	counter, err := table.DecodeEntryCounter(it)
	if err != nil {
		s.ReportSkipped(ctx, it, err)
		counter = promotion.EntryCounter{}
	}
	it = items.Get(table.DrawKey(m.EventID))
	draw, err := table.DecodeDraw(m.EventID, it)
	if err != nil {
		s.ReportSkipped(ctx, it, err)
		draw = promotion.Draw{}
	}
	g.SentAt = counter.SentAt
	switch {
	case draw.Phase == promotion.DrawVoid:
		g.Rejection = promotion.RejectedVoid
	case counter.ClosedAt != 0:
		g.Rejection = promotion.RejectedLate
	}
	return g
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
