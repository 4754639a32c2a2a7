package dynamo

import (
	"context"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

const pageSize = 100 // the most items of one read

func (s *Store) AcquireLease(ctx context.Context, slice string) (bool, error) {
	return s.leases.Acquire(ctx, slice)
}

// Announcements reads the first page of a partition of the outbox. It makes a dead letter of an
// item that cannot be decoded, so that the announcements behind it are published.
func (s *Store) Announcements(ctx context.Context, partition int) (page []promotion.Outbox, more bool, err error) {
	for more = true; more && len(page) == 0; {
		var items []dynamo.Item
		items, more, err = s.Query(ctx, table.PartitionQuery{PK: table.OutboxPartition(partition), Limit: pageSize})
		if err != nil {
			return nil, false, err
		}
		for _, it := range items {
			o, err := table.DecodeOutbox(it)
			if err != nil {
				if err := s.buryAnnouncement(ctx, it, err); err != nil {
					return nil, false, err
				}
				continue
			}
			page = append(page, o)
		}
	}
	return page, more, nil
}

// buryAnnouncement moves an item of the outbox to the dead letters, unless that was done already.
func (s *Store) buryAnnouncement(ctx context.Context, it dynamo.Item, cause error) error {
	s.ReportSkipped(ctx, it, cause)
	rows := dynamo.Reader{Item: it}
	l := promotion.NewDeadLetter("outbox#"+table.SortKey(it), s.Millis())
	l.Body, l.ErrorCode, l.ErrorMessage = rows.String("rows"), promotion.UnreadableAnnouncement, cause.Error()
	tx := s.Begin()
	tx.Put(0, table.DeadLetterItem(&l), table.Condition{})
	tx.Delete(0, table.KeyOf(it), table.Present())
	err := tx.Commit(ctx)
	if len(tx.Failed(err)) > 0 { // another process has moved it
		return nil
	}
	if err == nil {
		deadLetters.Inc()
	}
	return err
}

// RedriveAnnouncement puts the announcements of a dead letter back into the outbox and marks it as
// redriven, at once. It fails with promotion.ErrNotRedrivable if they still cannot be read, or if
// another call was faster.
func (s *Store) RedriveAnnouncement(ctx context.Context, l promotion.DeadLetter) error {
	o, err := table.DecodeOutbox(dynamo.Item{table.SK: dynamo.String(l.ID), "rows": dynamo.String(l.Body)})
	if err != nil {
		return promotion.ErrNotRedrivable
	}
	tx := s.Begin()
	it, _ := table.NewOutbox(s.Millis(), o.Rows)
	tx.Put(0, it, table.Absent())
	s.markRedriven(tx, l, table.NotRedriven())
	err = tx.Commit(ctx)
	if len(tx.Failed(err)) > 0 {
		return promotion.ErrNotRedrivable
	}
	return err
}

func (s *Store) DeletePublished(ctx context.Context, partition int, done []promotion.Outbox) error {
	keys := make([]dynamo.Item, len(done))
	for i, o := range done {
		keys[i] = table.OutboxKey(partition, o.ID)
	}
	return dynamo.Err(dynamo.BatchDelete(ctx, s.Client, s.Table, keys))
}

func (s *Store) DeadLetters(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error) {
	return s.deadLetters(ctx, promotion.DeadLetters, table.PartitionQuery{After: after, Limit: int32(limit), Descending: true}) //nolint:gosec // at most 100
}

func (s *Store) OldestDeadLetters(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error) {
	return s.deadLetters(ctx, promotion.DeadLetters, table.PartitionQuery{After: after, Limit: int32(limit)}) //nolint:gosec // at most 100
}

// deadLetters reads a page of the dead letters of a queue.
func (s *Store) deadLetters(ctx context.Context, queue string, p table.PartitionQuery) (page []promotion.DeadLetter, next string, err error) {
	p.PK = table.DeadLetterPartition(queue)
	items, more, err := s.Query(ctx, p)
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		if next = ""; more {
			next = table.SortKey(it)
		}
		l, err := table.DecodeDeadLetter(it)
		if err != nil {
			s.ReportSkipped(ctx, it, err)
			continue
		}
		if !table.Expired(it, s.Millis()) {
			page = append(page, l)
		}
	}
	return page, next, nil
}

func (s *Store) MarkRedriven(ctx context.Context, l promotion.DeadLetter) error {
	tx := s.Begin()
	s.markRedriven(tx, l, table.Present())
	return tx.Commit(ctx)
}

func (s *Store) markRedriven(tx *table.Tx, l promotion.DeadLetter, c table.Condition) {
	after := l
	after.RedrivenAt = s.Millis()
	tx.Update(0, table.KeyOf(table.DeadLetterItem(&l)), dynamo.Diff(table.DeadLetterItem(&l), table.DeadLetterItem(&after)), c)
}
