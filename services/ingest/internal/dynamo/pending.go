package dynamo

import (
	"context"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/dynamo"
)

// markersPerPage is the number of markers that one read of the sweeper returns.
const markersPerPage = 100

// Acquire implements request.Pending.
func (s *Store) Acquire(ctx context.Context, slice string) (bool, error) {
	return s.leases.Acquire(ctx, slice)
}

// Markers implements request.Pending.
func (s *Store) Markers(ctx context.Context, partition int, before int64, cursor string) (page []asyncevent.Marker, next string, err error) {
	items, more, err := s.Query(ctx, asyncevent.Partition{
		PK: asyncevent.MarkerPartition(partition), Below: asyncevent.MarkersBefore(before), After: cursor, Limit: markersPerPage,
	})
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		m, err := asyncevent.DecodeMarker(it)
		if err != nil {
			return nil, "", err
		}
		page = append(page, m)
	}
	if more && len(items) > 0 {
		last := dynamo.Reader{Item: items[len(items)-1]}
		next = last.String(asyncevent.SK)
	}
	return page, next, nil
}

// Guarded implements request.Pending.
func (s *Store) Guarded(ctx context.Context, markers []asyncevent.Marker) (map[string]asyncevent.Request, map[string]asyncevent.Capacity, error) {
	var keys []dynamo.Item
	wanted := map[string]bool{}
	add := func(name string, key dynamo.Item) {
		if !wanted[name] {
			wanted[name] = true
			keys = append(keys, key)
		}
	}
	for _, m := range markers {
		add("request "+m.RequestID, asyncevent.RequestKey(m.RequestID))
		add("event "+m.EventID, asyncevent.CapacityKey(m.EventID))
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, nil, err
	}
	requests, capacities := map[string]asyncevent.Request{}, map[string]asyncevent.Capacity{}
	for _, m := range markers {
		if it := items.Get(asyncevent.RequestKey(m.RequestID)); it != nil {
			r, err := asyncevent.DecodeRequest(it)
			if err != nil {
				r = asyncevent.Request{} // it cannot be judged, and must not stop the others
			}
			requests[m.RequestID] = r
		}
		if it := items.Get(asyncevent.CapacityKey(m.EventID)); it != nil {
			if capacities[m.EventID], err = asyncevent.DecodeCapacity(it); err != nil {
				return nil, nil, err
			}
		}
	}
	return requests, capacities, nil
}

// Unguard implements request.Pending.
func (s *Store) Unguard(ctx context.Context, markers []asyncevent.Marker) error {
	for len(markers) > 0 {
		n := min(len(markers), dynamo.MaxTransaction)
		tx := s.Begin()
		for i := range markers[:n] {
			tx.Delete(asyncevent.Shared, markers[i].Key(), asyncevent.Condition{})
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		markers = markers[n:]
	}
	return nil
}

// End implements request.Pending.
func (s *Store) End(ctx context.Context, ends []asyncevent.Change) error {
	for len(ends) > 0 {
		tx := s.Begin()
		for i, c := range ends {
			tx.Change(i, c)
			if c.After.Status == asyncevent.FailedFinal {
				r := c.After
				tx.Delete(i, asyncevent.LockKey(r.EventID, r.UserID), asyncevent.Names(r.RequestID))
			}
		}
		err := tx.Commit(ctx)
		if err == nil {
			return nil
		}
		moved := tx.Failed(err)
		if len(moved) == 0 {
			return err
		}
		var rest []asyncevent.Change
		for i, c := range ends {
			if !moved[i] {
				rest = append(rest, c)
			}
		}
		ends = rest
	}
	return nil
}
