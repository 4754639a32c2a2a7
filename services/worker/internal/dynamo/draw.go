package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/draw"
)

var (
	_ draw.Draws     = (*Store)(nil)
	_ draw.Lotteries = (*Store)(nil)
	_ draw.Requests  = (*Store)(nil)
	_ draw.Results   = (*Store)(nil)
)

// drawsPerRead is the most lotteries that one call reads; each has two items.
const drawsPerRead = 50

func (s *Store) OpenDraws(ctx context.Context, until int64) ([]draw.Lottery, error) {
	q := table.PartitionQuery{PK: table.OpenDraws, KeysOnly: true}
	if until != draw.AllDraws {
		q.Below = table.OpenDrawsBefore(until + 1)
	}
	var events []string
	listed := map[string]int64{}
	for it, err := range s.All(ctx, q) {
		if err != nil {
			return nil, err
		}
		event, at := table.DecodeOpenDraw(it)
		if _, twice := listed[event]; !twice { // a change may move a draw while the list is read
			events = append(events, event)
		}
		listed[event] = at
	}
	var out []draw.Lottery
	for chunk := range slices.Chunk(events, drawsPerRead) {
		page, err := s.readLotteries(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for i := range page {
			page[i].ListedAt = listed[page[i].Promotion.EventID]
		}
		out = append(out, page...)
	}
	return out, nil
}

func (s *Store) Lottery(ctx context.Context, event string) (l draw.Lottery, found bool, err error) {
	page, err := s.readLotteries(ctx, []string{event})
	if err != nil || len(page) == 0 {
		return l, false, err
	}
	return page[0], true, page[0].Unreadable
}

// readLotteries reads the promotions of the events, each with its draw. Events without a promotion
// are left out; a promotion without a stored draw has an open one. Lotteries that cannot be decoded
// have Unreadable set.
func (s *Store) readLotteries(ctx context.Context, events []string) ([]draw.Lottery, error) {
	var keys []dynamo.Item
	for _, event := range events {
		keys = append(keys, table.PromotionKey(event), table.DrawKey(event))
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var out []draw.Lottery
	for _, event := range events {
		it := items.Get(table.PromotionKey(event))
		if it == nil {
			continue
		}
		out = append(out, decodeLottery(event, it, items.Get(table.DrawKey(event))))
	}
	return out, nil
}

func decodeLottery(event string, promotionItem, drawItem dynamo.Item) draw.Lottery {
	p, err := table.DecodePromotion(promotionItem)
	d, unreadable := table.DecodeDraw(event, drawItem)
	if err = errors.Join(err, unreadable); err != nil {
		return draw.Lottery{Promotion: promotion.Promotion{EventID: event}, Unreadable: fmt.Errorf("%w: %w", draw.ErrUnreadable, err)}
	}
	if d.Phase == promotion.DrawOpen {
		d.DueAt = p.LotteryCutoffAt // as the ingest service has listed it
	}
	return draw.Lottery{Promotion: p, Draw: d}
}

func (s *Store) Advance(ctx context.Context, before, after promotion.Draw) error {
	tx := s.Begin()
	putDraw(tx, &before, &after)
	return toErrChanged(tx.Commit(ctx))
}

// putDraw writes a draw, and moves it in the list of open draws, on the condition that it has not
// changed since it was read.
func putDraw(tx *table.Tx, before, after *promotion.Draw) {
	if before.Phase == promotion.DrawOpen {
		tx.Put(0, table.DrawItem(after), table.DrawUnchanged(before))
	} else {
		tx.Update(0, table.DrawKey(before.EventID), dynamo.Diff(table.DrawItem(before), table.DrawItem(after)), table.DrawUnchanged(before))
	}
	over := after.SettledAt != 0
	if over || after.DueAt != before.DueAt {
		tx.Delete(0, table.OpenDrawKey(before.EventID, before.DueAt), table.Condition{})
	}
	if !over && after.DueAt != before.DueAt {
		tx.Put(0, table.OpenDrawItem(before.EventID, after.DueAt), table.Condition{})
	}
}

func (s *Store) ChangeLottery(ctx context.Context, before, after draw.Lottery) error {
	tx := s.Begin()
	putDraw(tx, &before.Draw, &after.Draw)
	if before.Promotion != after.Promotion {
		tx.Update(1, table.PromotionKey(before.Promotion.EventID), dynamo.Diff(table.PromotionItem(&before.Promotion), table.PromotionItem(&after.Promotion)), table.Condition{
			Expression: "version = :read", Values: dynamo.Item{":read": dynamo.Number(before.Promotion.Version)},
		})
	}
	return toErrChanged(tx.Commit(ctx))
}

func toErrChanged(err error) error {
	if dynamo.Contended(err) {
		return fmt.Errorf("%w: %w", draw.ErrChanged, err)
	}
	return err
}

func (s *Store) Forget(ctx context.Context, event string, listedAt int64) error {
	tx := s.Begin()
	tx.Delete(0, table.OpenDrawKey(event, listedAt), table.Condition{})
	return tx.Commit(ctx)
}

func (s *Store) Unsettled(ctx context.Context, event string, before int64) (bool, error) {
	for i := range promotion.Partitions {
		for it, err := range s.All(ctx, table.PartitionQuery{PK: table.MarkerPartition(i), Below: table.MarkersBefore(before)}) {
			if err != nil {
				return false, err
			}
			if found, err := s.isMarkerOf(ctx, it, event); err != nil || found {
				return found, err
			}
		}
	}
	return false, nil
}

// isMarkerOf reports whether the item `it` is the marker of a request to an event. If the marker
// cannot be decoded, it reads the event from the request. If that fails too, the marker counts for
// every event until the ingest service has ended the request.
func (s *Store) isMarkerOf(ctx context.Context, it dynamo.Item, event string) (bool, error) {
	m, err := table.DecodeMarker(it)
	if err == nil {
		return m.EventID == event, nil
	}
	s.ReportSkipped(ctx, it, err)
	r, found, err := s.Request(ctx, m.RequestID)
	if errors.Is(err, promotion.ErrUnreadable) {
		return true, nil
	}
	return found && r.EventID == event, err
}

func (s *Store) Entries(ctx context.Context, event, group, after string) (page fairdraw.Entries, next string, err error) {
	items, more, err := s.Query(ctx, table.PartitionQuery{PK: table.EntryPartition(event, group), After: after, KeysOnly: true})
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		text, err := table.DecodeEntry(it)
		if err != nil {
			return nil, "", err
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, "", fmt.Errorf("entry %q of %s: %w", text, event, err)
		}
		page = append(page, id[:]...)
		if more {
			next = text
		}
	}
	return page, next, nil
}

func (s *Store) PutEntries(ctx context.Context, event string, root fairdraw.Hash, n int, chunk fairdraw.Entries, endsAt int64) error {
	return s.put(ctx, table.EntriesItem(event, root, n, chunk, endsAt))
}

func (s *Store) PutRanks(ctx context.Context, d promotion.Draw, n int, ranks promotion.Ranks, endsAt int64) error {
	return s.put(ctx, table.RanksItem(&d, n, ranks, endsAt))
}

// put writes an item without a condition, since every process would write the same item.
func (s *Store) put(ctx context.Context, it dynamo.Item) error {
	_, err := s.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.Table, Item: it})
	return dynamo.Err(err)
}

func (s *Store) PutWinners(ctx context.Context, d promotion.Draw, winners []uuid.UUID, endsAt int64) error {
	for _, it := range table.WinnersItems(&d, winners, endsAt) {
		if err := s.put(ctx, it); err != nil {
			return err
		}
		failpoint.Hit("worker.draw.winners")
	}
	return nil
}

// maxSettleTries is how often SettleEntries tries while another process writes the same entries.
const maxSettleTries = 5

func (s *Store) SettleEntries(ctx context.Context, entries []uuid.UUID, decide draw.DecideEntry) error {
	keys := make([]dynamo.Item, len(entries))
	for i, id := range entries {
		keys[i] = table.RequestKey(id.String())
	}
	for try := 1; ; try++ {
		items, err := s.Read(ctx, keys...)
		if err != nil {
			return err
		}
		var unreadable []error
		tx := s.Begin()
		for i, key := range keys {
			r, err := table.DecodeRequest(items.Get(key))
			if err != nil {
				unreadable = append(unreadable, fmt.Errorf("%w: entry %s: %w", draw.ErrUnreadable, entries[i], err))
			} else if c := decide(&r, s.Millis()); c != nil {
				tx.Change(i, *c)
			}
		}
		if tx.Len() == 0 {
			return errors.Join(unreadable...)
		}
		err = s.commit(ctx, tx)
		if err == nil || try == maxSettleTries || !dynamo.Contended(err) {
			return errors.Join(append(unreadable, err)...)
		}
	}
}
