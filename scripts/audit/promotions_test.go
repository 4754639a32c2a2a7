package audit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

// newPromotionStore returns a store on a new table.
func newPromotionStore(t *testing.T) table.Store {
	t.Helper()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	return table.NewStore(dynamo.Leases{Client: db, Table: tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: time.Now})
}

// The audit of a promotion reads neither the whole table nor requests to other promotions. It finds
// the lock of a user who has no request.
func TestPromotionIsReadByItsKeys(t *testing.T) {
	t.Parallel()
	store := newPromotionStore(t)
	tx := store.Begin()
	for _, event := range []string{"e", "other"} {
		p := promotion.Promotion{EventID: event, EventType: promotion.Lottery, Shards: 128}
		tx.Put(0, table.PromotionItem(&p), table.Absent())
		r := promotion.NewRequest(&p, ids.NewV7().String(), "u", store.Millis())
		tx.Create(0, r.Created())
		tx.Put(0, table.LockItem(&promotion.Lock{EventID: event, UserID: "late", RequestID: "none"}), table.Absent())
	}
	require.NoError(t, tx.Commit(t.Context()))
	var foreign atomic.Int32
	hook := dynamotest.Hook{
		Before: func(in any) error {
			if _, scans := in.(*dynamodb.ScanInput); scans {
				return errors.New("a scan")
			}
			return nil
		},
		After: func(_, out any) error {
			if page, ok := out.(*dynamodb.QueryOutput); ok {
				for _, item := range page.Items {
					if d := (dynamo.Reader{Item: item}); d.String("entityType") == "REQUEST" && d.String("eventId") != "e" {
						foreign.Add(1)
					}
				}
			}
			return nil
		},
	}
	promotions := Promotions{
		db: dynamodb.New(store.Client.Options(), hook.Options), table: store.Table,
		read: func(context.Context, []string, string) ([]*kgo.Record, error) { return nil, nil },
	}
	p, err := promotions.Get(t.Context(), "e", "late", "absent")
	require.NoError(t, err)
	require.Len(t, p.Requests, 1)
	require.Len(t, p.Markers, 1)
	require.Equal(t, map[string]string{"late": "none"}, p.Locks)
	require.Zero(t, foreign.Load())
}

// Users who applied after the lottery's cutoff need no request, unless an earlier try was stored.
func TestLateApplicantsNeedNoRequest(t *testing.T) {
	t.Parallel()
	store := newPromotionStore(t)
	lottery := promotion.Promotion{EventID: "lottery", EventType: promotion.Lottery, Shards: 1}
	tx := store.Begin()
	tx.Put(0, table.PromotionItem(&lottery), table.Absent())
	for i, user := range []string{"in-time", "repeated"} {
		r := promotion.NewRequest(&lottery, ids.NewV7().String(), user, store.Millis())
		tx.Create(i, r.Created())
		tx.Put(i, table.LockItem(&promotion.Lock{EventID: "lottery", UserID: user, RequestID: r.RequestID}), table.Absent())
	}
	require.NoError(t, tx.Commit(t.Context()))
	promotions := Promotions{
		db: store.Client, table: store.Table,
		read: func(context.Context, []string, string) ([]*kgo.Record, error) { return nil, nil },
	}
	v, _, err := promotions.Judge(t.Context(), PromotionRun{
		Users: []string{"in-time", "repeated", "late", "lost"}, Late: []string{"repeated", "late"},
		FirstCome: PromotionOfRun{EventID: "none"}, Lottery: PromotionOfRun{EventID: "lottery", Places: 9},
		Read: func(context.Context, string) ([]byte, error) { return nil, errors.New("not published") },
	})
	require.NoError(t, err)
	require.Equal(t, 1, v.Late)
	require.Equal(t, 7, v.Expected, "both promotions together")
	require.Equal(t, 2, v.Applicants)
	require.Equal(t, 3, v.Winners)
}

// writtenPromotion stores a promotion with two places, by the services' own code. It has three
// requests in one message, of which the first two succeed.
func writtenPromotion(t *testing.T) (p *Promotion, sent map[string][]string) {
	t.Helper()
	store := newPromotionStore(t)
	endsAt := store.Millis() + time.Hour.Milliseconds()
	promo := promotion.Promotion{EventID: "e", EventType: promotion.FirstCome, CapacityTotal: 2, ClosesAt: endsAt, Shards: 1}
	tx := store.Begin()
	tx.Put(0, table.PromotionItem(&promo), table.Absent())
	tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: "e", Total: 2}), table.Absent())
	sent = map[string][]string{}
	var settled []promotion.Change
	for i := range 3 {
		r := promotion.NewRequest(&promo, ids.NewV7().String(), fmt.Sprint("u", i), store.Millis())
		tx.Put(i, table.LockItem(&promotion.Lock{EventID: "e", UserID: r.UserID, RequestID: r.RequestID, EndsAt: endsAt}), table.Absent())
		tx.Create(i, r.Created())
		sent[r.RequestID] = []string{fmt.Sprintf("7.%02d", i)}
		status, code := promotion.Succeeded, promotion.Success
		if i == 2 {
			status, code = promotion.Rejected, promotion.RejectedCapacity
		}
		settled = append(settled, r.Settled(store.Millis(), status, code, promotion.Turn{SequenceNumber: "7", Member: i}))
	}
	require.NoError(t, tx.Commit(t.Context()))
	tx = store.Begin()
	var records []*kgo.Record
	for i, c := range settled {
		tx.Change(i, c)
		record := &kgo.Record{
			Headers: []kgo.RecordHeader{{Key: "ce_id", Value: fmt.Append(nil, i)}},
			Value: fmt.Appendf(nil, `{"requestId": %q, "eventId": "e", "status": %q, "resultCode": %q, "queueSeq": %q, "version": %d}`,
				c.After.RequestID, c.After.Status, c.After.ResultCode, c.After.QueueSeq, c.After.StatusAt),
		}
		records = append(records, record, record) // published twice, as after a crash of the relay
	}
	require.NoError(t, tx.Commit(t.Context()))
	promotions := Promotions{db: store.Client, table: store.Table, read: func(context.Context, []string, string) ([]*kgo.Record, error) { return records, nil }}
	unsettled, err := promotions.Unsettled(t.Context(), "e")
	require.NoError(t, err)
	require.Zero(t, unsettled)
	p, err = promotions.Get(t.Context(), "e")
	require.NoError(t, err)
	require.Len(t, p.Outbox, 1, "nobody has published yet")
	p.Outbox = nil
	return p, sent
}

func TestPromotionWithoutFaults(t *testing.T) {
	t.Parallel()
	p, sent := writtenPromotion(t)
	require.Empty(t, p.Faults(sent).All())
	require.Empty(t, p.Faults(nil).All())
	require.Equal(t, 2, p.Succeeded())
}

// promotionDamage changes a promotion. It must cause faults in the list that found returns.
type promotionDamage struct {
	damage func(*Promotion)
	found  func(PromotionFaults) []string
}

var promotionDamages = map[string]promotionDamage{
	"one winner too many": {
		func(p *Promotion) { p.Total, p.Remaining = 1, -1 },
		func(f PromotionFaults) []string { return f.Places },
	},
	"places left over": {
		func(p *Promotion) { p.Remaining = 1 },
		func(f PromotionFaults) []string { return f.Places },
	},
	"a winner behind a loser": {
		func(p *Promotion) { p.settledBy(1, "7.05"); p.settledBy(2, "7.04") },
		func(f PromotionFaults) []string { return f.OutOfOrder },
	},
	"one turn for two": {
		func(p *Promotion) { p.settledBy(1, "7.00") },
		func(f PromotionFaults) []string { return f.OutOfOrder },
	},
	"two requests of one user": {
		func(p *Promotion) { p.Requests[1].User = p.Requests[0].User },
		func(f PromotionFaults) []string { return f.Duplicates },
	},
	"a lock without a request": {
		func(p *Promotion) { p.Locks["u9"] = "gone" },
		func(f PromotionFaults) []string { return f.Duplicates },
	},
	"a marker": {
		func(p *Promotion) { p.Markers = []string{"m"} },
		func(f PromotionFaults) []string { return f.Unsettled },
	},
	"not settled": {
		func(p *Promotion) {
			p.Requests[2].Status, p.Requests[2].ResultCode = "QUEUED", ""
			p.Counts["result_REJECTED_CAPACITY"] = 0
		},
		func(f PromotionFaults) []string { return f.Unsettled },
	},
	"a missing log": {
		func(p *Promotion) { p.Requests[0].Logs = p.Requests[0].Logs[1:] },
		func(f PromotionFaults) []string { return f.Logs },
	},
	"a log after the end": {
		func(p *Promotion) { p.Requests[0].StatusAt-- },
		func(f PromotionFaults) []string { return f.Logs },
	},
	"not announced": {
		func(p *Promotion) { p.Announced[p.Requests[0].ID] = nil },
		func(f PromotionFaults) []string { return f.Announcements },
	},
	"announced as two": {
		func(p *Promotion) { p.Announced[p.Requests[0].ID][0].ID = "another" },
		func(f PromotionFaults) []string { return f.Announcements },
	},
	"announced otherwise": {
		func(p *Promotion) {
			changed := p.Announced[p.Requests[0].ID][:1]
			changed[0].Status = rejected
			p.Announced[p.Requests[0].ID] = changed
		},
		func(f PromotionFaults) []string { return f.Announcements },
	},
	"counted twice": {
		func(p *Promotion) { p.Counts["accepted"]++ },
		func(f PromotionFaults) []string { return f.Miscounted },
	},
}

// Each damage causes faults of its own kind and no others.
func TestPromotionFaults(t *testing.T) {
	t.Parallel()
	honest, sent := writtenPromotion(t)
	for name, tc := range promotionDamages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := honest.clone()
			tc.damage(p)
			f := p.Faults(nil)
			require.NotEmpty(t, tc.found(f))
			require.Len(t, f.All(), len(tc.found(f)), "%v", f.All())
		})
	}
	p := honest.clone()
	p.Requests[0].QueueSeq = ""
	require.NotEmpty(t, p.Faults(nil).OutOfOrder)
	require.NotEmpty(t, honest.Faults(map[string][]string{}).OutOfOrder, "settled by messages that nobody saw")
	require.NotEmpty(t, honest.Faults(map[string][]string{honest.Requests[2].ID: {"6.00"}}).OutOfOrder)
	require.NotEmpty(t, sent)
}

// settledBy changes the queue position of request i, in the request and in its Kafka events.
func (p *Promotion) settledBy(i int, seq string) {
	r := &p.Requests[i]
	r.QueueSeq = padSequence(seq)
	for j := range p.Announced[r.ID] {
		p.Announced[r.ID][j].QueueSeq = r.QueueSeq
	}
}

// clone copies p with the slices and maps that the tests change.
func (p *Promotion) clone() *Promotion {
	c := *p
	c.Requests = append([]EventRequest(nil), p.Requests...)
	c.Counts, c.Locks, c.Announced = map[string]int64{}, map[string]string{}, map[string][]RequestEvent{}
	for k, v := range p.Counts {
		c.Counts[k] = v
	}
	for k, v := range p.Locks {
		c.Locks[k] = v
	}
	for k, v := range p.Announced {
		c.Announced[k] = append([]RequestEvent(nil), v...)
	}
	return &c
}
