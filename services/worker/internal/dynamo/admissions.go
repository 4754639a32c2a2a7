package dynamo

import (
	"context"

	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/deadletter"
)

var _ deadletter.Store = (*Store)(nil)

func (s *Store) PutAdmission(ctx context.Context, l promotion.DeadLetter) error {
	tx := s.Begin()
	tx.Put(table.Shared, table.DeadLetterItem(&l), table.Condition{})
	return tx.Commit(ctx)
}

func (s *Store) Admissions(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error) {
	return s.deadLetters(ctx, promotion.AdmissionDeadLetters, table.PartitionQuery{After: after, Limit: int32(limit), Descending: true}) //nolint:gosec // at most 100
}

func (s *Store) OldestAdmissions(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error) {
	return s.deadLetters(ctx, promotion.AdmissionDeadLetters, table.PartitionQuery{After: after, Limit: int32(limit)}) //nolint:gosec // at most 100
}

func (s *Store) Admission(ctx context.Context, id string) (l promotion.DeadLetter, found bool, err error) {
	key := table.DeadLetterKey(promotion.AdmissionDeadLetters, id)
	items, err := s.Read(ctx, key)
	if err != nil {
		return l, false, err
	}
	it := items.Get(key)
	if it == nil || table.Expired(it, s.Millis()) {
		return l, false, nil
	}
	l, err = table.DecodeDeadLetter(it)
	return l, err == nil, err
}
