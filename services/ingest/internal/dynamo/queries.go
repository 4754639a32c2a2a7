package dynamo

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

// maxIndexPages is the most pages of an index that one call reads. If the index has more partitions
// than that, the call reads one page of each.
const maxIndexPages = 10

const parallelPartitions = 8 // how many partitions of an index are read at once

func (s *Store) Get(ctx context.Context, id string) (promotion.Request, error) {
	r, found, err := s.Request(ctx, id)
	if err == nil && !found {
		err = request.ErrNotFound
	}
	return r, toUnavailable(err)
}

func (s *Store) LockOf(ctx context.Context, eventID, user string) (promotion.Lock, error) {
	l, err := s.locks.Do(ctx, request.Applicant{EventID: eventID, UserID: user})
	if err == nil && l == nil {
		err = request.ErrNotFound
	}
	if err != nil {
		return promotion.Lock{}, err
	}
	return *l, nil
}

func (s *Store) ActiveOf(ctx context.Context, eventID, user string) (promotion.Request, error) {
	l, err := s.LockOf(ctx, eventID, user)
	if err == nil && l.Withdrawn {
		err = request.ErrNotFound
	}
	if err != nil {
		return promotion.Request{}, err
	}
	return s.Get(ctx, l.RequestID)
}

func (s *Store) LatestOf(ctx context.Context, eventID, user string) (latest promotion.Request, err error) {
	found, err := s.FindOfUser(ctx, eventID, user, func(it dynamo.Item, r *promotion.Request, err error) bool {
		if err != nil {
			s.ReportSkipped(ctx, it, err)
			return false
		}
		latest = *r
		return r.Counts() && !table.Expired(it, s.Millis())
	})
	switch {
	case err != nil:
		return promotion.Request{}, toUnavailable(err)
	case !found:
		return promotion.Request{}, request.ErrNotFound
	default:
		return latest, nil
	}
}

func (s *Store) Timeline(ctx context.Context, id string) ([]promotion.LogEntry, error) {
	items, _, err := s.Query(ctx, table.PartitionQuery{PK: "REQ#" + id, Prefix: table.LogPrefix})
	if err != nil {
		return nil, toUnavailable(err)
	}
	var logs []promotion.LogEntry
	for _, it := range items {
		l, err := table.DecodeLog(it)
		if err != nil {
			return nil, toUnavailable(err)
		}
		if !table.Expired(it, s.Millis()) {
			logs = append(logs, l)
		}
	}
	return logs, nil
}

func (s *Store) ListOfUser(ctx context.Context, user, cursor string, limit int) ([]promotion.Request, string, error) {
	i := index{name: table.GSI1, pkName: table.GSI1PK, skName: table.GSI1SK, partitions: []string{table.UserIndex(user)}}
	return s.listIndex(ctx, i, cursor, limit, request.Filter{})
}

// ListOfEvent lists requests to a promotion, the latest first. A page may be shorter than the limit
// although more requests follow.
func (s *Store) ListOfEvent(ctx context.Context, p *promotion.Promotion, f request.Filter, cursor string, limit int) ([]promotion.Request, string, error) {
	i := index{name: table.GSI2, pkName: table.GSI2PK, skName: table.GSI2SK, partitions: table.EventIndex(p.EventID, p.Shards)}
	return s.listIndex(ctx, i, cursor, limit, f)
}

// index is a global secondary index, and the partitions of it that a call reads.
type index struct {
	name, pkName, skName string
	partitions           []string
}

// indexItem is an item that was read from an index, and its sort key there.
type indexItem struct {
	sk string
	it dynamo.Item
}

// listIndex lists requests of all partitions of an index by their sort keys, which are unique, the
// latest first. It reads one page of each partition at a time until it has `limit` requests or has
// read maxIndexPages.
func (s *Store) listIndex(ctx context.Context, i index, cursor string, limit int, f request.Filter) (page []promotion.Request, next string, err error) {
	passes := max(1, maxIndexPages/len(i.partitions))
	for range passes {
		merged, more, err := s.nextPages(ctx, i, cursor, limit)
		if err != nil {
			return nil, "", toUnavailable(err)
		}
		for n, m := range merged {
			cursor = m.sk
			r, err := table.DecodeRequest(m.it)
			if err != nil {
				s.ReportSkipped(ctx, m.it, err)
				continue
			}
			if !f.Selects(&r) || table.Expired(m.it, s.Millis()) {
				continue
			}
			if page = append(page, r); len(page) == limit {
				if n == len(merged)-1 && !more {
					cursor = ""
				}
				return page, cursor, nil
			}
		}
		if !more {
			return page, "", nil
		}
	}
	return page, cursor, nil
}

// nextPages reads a page below a sort key from each partition, and merges the pages. more reports
// that items follow. Where a partition has more items than its page, items of other partitions
// below the end of that page are left out, since unread items may come before them.
func (s *Store) nextPages(ctx context.Context, i index, below string, limit int) (merged []indexItem, more bool, err error) {
	pages := make([]*dynamodb.QueryOutput, len(i.partitions))
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(parallelPartitions)
	for n, pk := range i.partitions {
		in := &dynamodb.QueryInput{
			TableName: &s.Table, IndexName: &i.name, ScanIndexForward: aws.Bool(false), Limit: aws.Int32(int32(limit)), //nolint:gosec // at most 100
			KeyConditionExpression:    aws.String(i.pkName + " = :pk"),
			ExpressionAttributeValues: dynamo.Item{":pk": dynamo.String(pk)},
		}
		if below != "" {
			in.KeyConditionExpression = aws.String(i.pkName + " = :pk AND " + i.skName + " < :below")
			in.ExpressionAttributeValues[":below"] = dynamo.String(below)
		}
		work.Go(func() (err error) {
			pages[n], err = s.Client.Query(workCtx, in)
			return dynamo.Err(err)
		})
	}
	if err := work.Wait(); err != nil {
		return nil, false, err
	}
	horizon := "" // of the pages behind which items follow, the highest last sort key
	for _, page := range pages {
		for n, it := range page.Items {
			r := dynamo.Reader{Item: it}
			sk := r.String(i.skName)
			merged = append(merged, indexItem{sk: sk, it: it})
			if n == len(page.Items)-1 && len(page.LastEvaluatedKey) > 0 {
				more, horizon = true, max(horizon, sk)
			}
		}
	}
	slices.SortFunc(merged, func(a, b indexItem) int { return strings.Compare(b.sk, a.sk) })
	if more {
		merged = slices.DeleteFunc(merged, func(m indexItem) bool { return m.sk < horizon })
	}
	return merged, more, nil
}

func (s *Store) Figures(ctx context.Context, eventID string) (promotion.Counts, error) {
	counts, err := s.Counts(ctx, eventID)
	return counts, toUnavailable(err)
}
