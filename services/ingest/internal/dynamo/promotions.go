package dynamo

import (
	"context"
	"encoding/hex"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const (
	createTries = 3 // if another call uses the same idempotency key
	changeTries = 5 // if another operator changes the promotion
)

func (s *Store) Promotion(ctx context.Context, eventID string) (promotion.Promotion, error) {
	items, err := s.Read(ctx, table.PromotionKey(eventID))
	if err != nil {
		return promotion.Promotion{}, toUnavailable(err)
	}
	it := items.Get(table.PromotionKey(eventID))
	if it == nil {
		return promotion.Promotion{}, request.ErrPromotionNotFound
	}
	p, err := table.DecodePromotion(it)
	return p, toUnavailable(err)
}

// Create writes the promotion, its capacity, its entry in the list and the idempotency key in one
// transaction.
func (s *Store) Create(ctx context.Context, key *idempotency.Key, prepare request.PreparePromotion) (p promotion.Promotion, err error) {
	for try := 1; ; try++ {
		if key != nil {
			earlier, found, err := s.findCreated(ctx, key)
			if found || err != nil {
				return earlier, err
			}
		}
		if try == 1 {
			if p, err = prepare(ctx); err != nil {
				return p, err
			}
		}
		tx := s.Begin()
		if key != nil {
			k := table.CreationKey{UserID: key.UserID, Key: keyText(key), EventID: p.EventID, Hash: hex.EncodeToString(key.Fingerprint[:]), CreatedAt: s.Millis()}
			unused := table.Absent()
			unused.Expression += " OR #ttl <= :seconds" // or if the key has expired
			unused.Names = map[string]string{"#ttl": table.TTL}
			unused.Values = dynamo.Item{":seconds": dynamo.Number(s.Millis() / 1000)}
			tx.Put(0, k.Item(), unused)
		}
		tx.Put(1, table.PromotionItem(&p), table.Absent())
		tx.Put(1, table.ListItem(p.EventID), table.Condition{})
		switch p.EventType {
		case promotion.Lottery:
			tx.Put(1, table.OpenDrawItem(p.EventID, p.LotteryCutoffAt), table.Condition{})
		case promotion.FirstCome:
			capacity := promotion.Capacity{EventID: p.EventID, Total: p.CapacityTotal, Remaining: p.CapacityTotal, UpdatedAt: p.CreatedAt}
			tx.Put(1, table.CapacityItem(&capacity), table.Condition{})
		}
		err = tx.Commit(ctx)
		if err == nil || try == createTries || !dynamo.Contended(err) {
			return p, toUnavailable(err)
		}
	}
}

// keyText returns an idempotency key as the last part of a sort key, which may contain a `#`.
func keyText(key *idempotency.Key) string { return key.Route + "#" + key.Key }

// findCreated returns the promotion that was created under an idempotency key, if there is one.
func (s *Store) findCreated(ctx context.Context, key *idempotency.Key) (p promotion.Promotion, found bool, err error) {
	itemKey := table.CreationKeyKey(key.UserID, keyText(key))
	items, err := s.Read(ctx, itemKey)
	if err != nil {
		return p, false, toUnavailable(err)
	}
	it := items.Get(itemKey)
	if it == nil || table.Expired(it, s.Millis()) {
		return p, false, nil
	}
	eventID, hash, err := table.DecodeCreationKey(it)
	if err != nil {
		return p, false, toUnavailable(err)
	}
	if hash != hex.EncodeToString(key.Fingerprint[:]) {
		return p, true, idempotency.ErrReused
	}
	p, err = s.Promotion(ctx, eventID)
	return p, true, err
}

func (s *Store) Change(ctx context.Context, eventID string, decide request.DecideChange) (promotion.Promotion, error) {
	for range changeTries {
		before, err := s.Promotion(ctx, eventID)
		if err != nil {
			return before, err
		}
		after := before
		if err := decide(&after); err != nil || after == before {
			return after, err
		}
		after.Version++
		tx := s.Begin()
		tx.Update(0, table.PromotionKey(eventID), dynamo.Diff(table.PromotionItem(&before), table.PromotionItem(&after)), table.Condition{
			Expression: "version = :read", Values: dynamo.Item{":read": dynamo.Number(before.Version)},
		})
		if err := tx.Commit(ctx); !dynamo.Contended(err) {
			return after, toUnavailable(err)
		}
	}
	return promotion.Promotion{}, errs.ErrConflict
}

func (s *Store) List(ctx context.Context, after string, limit int) (page []promotion.Promotion, next string, err error) {
	if after != "" {
		after = table.ListSK(after)
	}
	items, more, err := s.Query(ctx, table.PartitionQuery{
		PK: table.PromotionList, After: after, Descending: true, Eventual: true, Limit: int32(limit), //nolint:gosec // at most 100
	})
	if err != nil {
		return nil, "", toUnavailable(err)
	}
	keys := make([]dynamo.Item, len(items))
	for i, it := range items {
		keys[i] = table.PromotionKey(table.ListedEvent(it))
	}
	configs, err := s.ReadEventual(ctx, keys...)
	if err != nil {
		return nil, "", toUnavailable(err)
	}
	if more {
		next = table.ListedEvent(items[len(items)-1])
	}
	for _, key := range keys {
		it := configs.Get(key)
		if it == nil {
			continue
		}
		p, err := table.DecodePromotion(it)
		if err != nil {
			s.ReportSkipped(ctx, it, err)
			continue
		}
		page = append(page, p)
	}
	return page, next, nil
}
