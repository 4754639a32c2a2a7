package dynamo

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const (
	parallelGroups     = 8 // of entries that are read
	parallelPartitions = 8 // of an index that are read
)

var (
	_ request.DrawStore   = (*Store)(nil)
	_ request.WinnerStore = (*Store)(nil)
)

func (s *Store) Draw(ctx context.Context, eventID string) (promotion.Draw, error) {
	items, err := s.Read(ctx, table.DrawKey(eventID))
	if err != nil {
		return promotion.Draw{}, unavailable(err)
	}
	d, err := table.DecodeDraw(eventID, items.Get(table.DrawKey(eventID)))
	return d, unavailable(err)
}

func (s *Store) Entries(ctx context.Context, eventID string) (fairdraw.Entries, error) {
	groups := promotion.LotteryGroups()
	lists := make([]fairdraw.Entries, len(groups))
	work, reading := errgroup.WithContext(ctx)
	work.SetLimit(parallelGroups)
	for i, group := range groups {
		work.Go(func() (err error) {
			lists[i], err = s.entriesOf(reading, table.EntryPartition(eventID, group))
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, unavailable(err)
	}
	entries, err := fairdraw.MergeAll(lists)
	return entries, unavailable(err)
}

// entriesOf reads a partition of entries. Texts of UUIDs sort as their bytes do.
func (s *Store) entriesOf(ctx context.Context, pk string) (ids fairdraw.Entries, err error) {
	for it, err := range s.All(ctx, table.PartitionQuery{PK: pk}) {
		if err != nil {
			return nil, err
		}
		text, err := table.DecodeEntry(it)
		if err != nil {
			return nil, err
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", text, err)
		}
		ids = append(ids, id[:]...)
	}
	return ids, nil
}

func (s *Store) Excluded(ctx context.Context, eventID string) ([]fairdraw.Exclusion, error) {
	var all []fairdraw.Exclusion
	for it, err := range s.All(ctx, table.PartitionQuery{PK: table.ExclusionPartition(eventID)}) {
		if err != nil {
			return nil, unavailable(err)
		}
		e, err := table.DecodeExclusion(it)
		if err != nil {
			return nil, unavailable(err)
		}
		all = append(all, fairdraw.Exclusion{RequestID: e.RequestID, Reason: string(e.Reason)})
	}
	return all, nil
}

func (s *Store) Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error) {
	winners, err := s.Store.Winners(ctx, d)
	return winners, unavailable(err)
}

func (s *Store) Users(ctx context.Context, requestIDs []string) (map[string]string, error) {
	keys := make([]dynamo.Item, len(requestIDs))
	for i, id := range requestIDs {
		keys[i] = table.RequestKey(id)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, unavailable(err)
	}
	users := make(map[string]string, len(items))
	for i, id := range requestIDs {
		it := items.Get(keys[i])
		if it == nil || table.Expired(it, s.Millis()) {
			continue
		}
		r, err := table.DecodeRequest(it)
		if err != nil {
			return nil, unavailable(err)
		}
		users[id] = r.UserID
	}
	return users, nil
}

// Succeeded reads the whole index of the event, of which DynamoDB returns only what has succeeded.
func (s *Store) Succeeded(ctx context.Context, p *promotion.Promotion) ([]promotion.Request, error) {
	partitions := table.EventIndex(p.EventID, p.Shards)
	parts := make([][]promotion.Request, len(partitions))
	work, reading := errgroup.WithContext(ctx)
	work.SetLimit(parallelPartitions)
	for i, pk := range partitions {
		work.Go(func() (err error) {
			parts[i], err = s.succeededIn(reading, pk)
			return err
		})
	}
	err := work.Wait()
	return slices.Concat(parts...), unavailable(err)
}

func (s *Store) succeededIn(ctx context.Context, pk string) (all []promotion.Request, err error) {
	pages := dynamodb.NewQueryPaginator(s.Client, &dynamodb.QueryInput{
		TableName: &s.Table, IndexName: aws.String(table.GSI2),
		KeyConditionExpression: aws.String(table.GSI2PK + " = :pk"), FilterExpression: aws.String("#status = :succeeded"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: dynamo.Item{
			":pk": dynamo.String(pk), ":succeeded": dynamo.String(string(promotion.Succeeded)),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, dynamo.Err(err)
		}
		for _, it := range page.Items {
			r, err := table.DecodeRequest(it)
			if err != nil {
				return nil, err
			}
			if !table.Expired(it, s.Millis()) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}
