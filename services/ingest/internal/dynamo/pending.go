package dynamo

import (
	"context"
	"slices"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const markersPerPage = 100 // the markers that the sweeper reads at once

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
		if m.RequestID != "" { // the id, from the sort key, suffices to send the request again
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
				r = promotion.Request{} // one unreadable request must not stop the others
			}
			marked.Requests[m.RequestID] = r
		}
	}
	return marked, s.readSettlementState(ctx, &marked)
}

// readSettlementState reads what decides about requests that have not ended: the capacity of their
// promotion, or the draw and the counter of entries.
func (s *Store) readSettlementState(ctx context.Context, marked *request.MarkedRequests) error {
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
		s.addSettlementState(ctx, marked, &r, items)
	}
	return nil
}

// addSettlementState adds to marked what decides about request r. It leaves out what cannot be
// decoded; the sweeper then does not reject r at once.
func (s *Store) addSettlementState(ctx context.Context, marked *request.MarkedRequests, r *promotion.Request, items table.Items) {
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

// endChunk is how many requests fit into a transaction that ends them. Each has up to seven items in
// it: its change, log, marker, lock and exclusion, and the figures and the draw of its event. The
// announcements of all are one more item.
const endChunk = (dynamo.MaxTransaction - 1) / 7

func (s *Store) End(ctx context.Context, ends []promotion.Change) error {
	for chunk := range slices.Chunk(ends, endChunk) {
		if err := s.endAll(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// endAll ends requests in one transaction, except those that were changed meanwhile.
func (s *Store) endAll(ctx context.Context, ends []promotion.Change) error {
	locks, err := s.locksOfFailed(ctx, ends)
	if err != nil {
		return err
	}
	for len(ends) > 0 {
		tx := s.Begin()
		for i, c := range ends {
			tx.Change(i, c)
			// A lock that counts withdrawals is kept: the next application takes it over with its count.
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

// locksOfFailed reads the locks of the users whose requests fail. It returns the locks by the
// request ids in them.
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
