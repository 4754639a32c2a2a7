package settle_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/settle"
)

// start is the time at which tests begin. It is in the future, so that DynamoDB expires no item.
var start = time.Date(2040, 3, 7, 12, 0, 0, 0, time.UTC)

const event = "demo"

// environment is a table with a promotion, and the requests to it in the order of the queue.
type environment struct {
	tables pkgdynamo.Config
	db     *awsdynamo.Client
	store  table.Store
	clock  *testkit.Clock
	sent   []string // ids, in the order of the queue
	kind   promotion.Type
	group  string // the group of all requests to a lottery; empty: any
}

func newEnvironment(t *testing.T, places int64) *environment {
	t.Helper()
	w := &environment{clock: testkit.NewClock(start), kind: promotion.FirstCome}
	w.tables, w.db = dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), w.db, table.Table(w.tables)))
	w.store = table.NewStore(pkgdynamo.Leases{Client: w.db, Table: w.tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: w.clock.Now})
	p := w.promotion()
	p.CapacityTotal = places
	tx := w.store.Begin()
	tx.Put(0, table.PromotionItem(p), table.Absent())
	tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: event, Total: places, Remaining: places}), table.Absent())
	require.NoError(t, tx.Commit(t.Context()))
	return w
}

func (w *environment) promotion() *promotion.Promotion {
	p := &promotion.Promotion{
		EventID: event, EventType: w.kind, OpensAt: start.Add(-time.Hour).UnixMilli(), ClosesAt: start.Add(time.Hour).UnixMilli(), Shards: 1,
	}
	if w.kind == promotion.Lottery {
		p.LotteryCutoffAt, p.AnnouncedAt = p.ClosesAt, p.ClosesAt+time.Hour.Milliseconds()
	}
	return p
}

// newLottery returns an environment whose requests are to a lottery.
func newLottery(t *testing.T) *environment {
	t.Helper()
	w := newEnvironment(t, 1)
	w.kind = promotion.Lottery
	tx := w.store.Begin()
	tx.Put(0, table.PromotionItem(w.promotion()), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	return w
}

// accept stores requests as the ingest service does, with their locks, and returns their messages.
func (w *environment) accept(t *testing.T, n int) []promotion.Outgoing {
	t.Helper()
	var out []promotion.Outgoing
	for range n {
		user := fmt.Sprint("u", len(w.sent))
		id := ids.NewV7().String()
		for w.group != "" && promotion.LotteryGroup(id) != w.group {
			id = ids.NewV7().String()
		}
		r := promotion.NewRequest(w.promotion(), id, user, w.store.Millis())
		tx := w.store.Begin()
		tx.Put(0, table.LockItem(&promotion.Lock{EventID: event, UserID: user, RequestID: r.RequestID, EndsAt: r.EndsAt}), table.Absent())
		tx.Create(0, r.Created())
		require.NoError(t, tx.Commit(t.Context()))
		w.sent = append(w.sent, r.RequestID)
		out = append(out, promotion.Outgoing{Message: promotion.MessageOf(&r)})
	}
	return out
}

// again returns the messages of requests that are sent once more.
func (w *environment) again(t *testing.T, ids []string) (out []promotion.Outgoing) {
	t.Helper()
	for _, id := range ids {
		r := w.request(t, id)
		out = append(out, promotion.Outgoing{Message: promotion.MessageOf(&r)})
	}
	return out
}

// packed returns messages with n requests each, as the queue would deliver them.
func (w *environment) packed(out []promotion.Outgoing, n int) (got []promotion.Delivery) {
	for i, d := range w.deliveries(out) {
		if i%n == 0 {
			got = append(got, d)
			var members []promotion.Message
			for _, m := range out[i:min(i+n, len(out))] {
				members = append(members, m.Message)
			}
			got[len(got)-1].Body = promotion.Body(members...)
		}
	}
	return got
}

// deliveries returns messages as the queue would deliver them, with ascending SequenceNumbers.
func (w *environment) deliveries(out []promotion.Outgoing) []promotion.Delivery {
	got := make([]promotion.Delivery, len(out))
	for i, m := range out {
		got[i] = promotion.Delivery{
			Body: promotion.Body(m.Message), Group: m.Group(), ID: m.RequestID, Handle: m.RequestID, SequenceNumber: fmt.Sprint(1000 + len(w.sent) - len(out) + i),
			SentAt: w.store.Millis(), Receives: 1,
		}
	}
	return got
}

// fakeQueue is a queue that records its calls. The zero value accepts all messages.
type fakeQueue struct {
	mu        sync.Mutex
	deleted   []string
	released  []string
	after     time.Duration // the delay of the latest release
	forwarded []promotion.Delivery
	sent      []promotion.Outgoing
}

func (*fakeQueue) Receive(context.Context) ([]promotion.Delivery, error) { return nil, nil }

func (d *fakeQueue) Delete(_ context.Context, messages []promotion.Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range messages {
		d.deleted = append(d.deleted, m.ID)
	}
	return nil
}

func (d *fakeQueue) Release(_ context.Context, messages []promotion.Delivery, after time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.after = after
	for _, m := range messages {
		d.released = append(d.released, m.ID)
	}
	return nil
}

func (d *fakeQueue) Send(_ context.Context, out []promotion.Outgoing) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent = append(d.sent, out...)
	return make([]error, len(out))
}

func (d *fakeQueue) Forward(_ context.Context, m promotion.Delivery, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forwarded = append(d.forwarded, m)
	return nil
}

// worker is a settler with its queues.
type worker struct {
	*settle.Settler

	queue, dead *fakeQueue
	store       *dynamo.Store
}

// worker makes a process whose calls of the store go through a hook.
func (w *environment) worker(hook dynamotest.Hook) worker {
	out := worker{queue: &fakeQueue{}, dead: &fakeQueue{}}
	out.store = w.open(hook)
	out.Settler = settle.New(out.store, out.queue, out.dead, settleOptions(w), slog.New(slog.DiscardHandler))
	return out
}

func (w *environment) open(hook dynamotest.Hook) *dynamo.Store {
	return dynamo.New(awsdynamo.New(w.db.Options(), hook.Options), w.tables, w.clock.Now, func(int) {})
}

func settleOptions(w *environment) settle.Options {
	return settle.Options{MaxAttempts: 5, Now: w.clock.Now}
}

// queues returns real queues of SQS.
func queues(t *testing.T) (live, dead *queue.Queue) {
	t.Helper()
	cfg, client := sqstest.Queue(t)
	name := queue.Config{Name: sqstest.Name(cfg)}
	return queue.New(client, name), queue.NewDeadLetters(client, name)
}

func (w *environment) request(t *testing.T, id string) promotion.Request {
	t.Helper()
	r, found, err := w.store.Request(t.Context(), id)
	require.NoError(t, err)
	require.True(t, found)
	return r
}

func (w *environment) statuses(t *testing.T) []promotion.Status {
	t.Helper()
	var out []promotion.Status
	for _, id := range w.sent {
		out = append(out, w.request(t, id).Status)
	}
	return out
}

// spoil makes the item of a request unreadable.
func (w *environment) spoil(t *testing.T, id string) {
	t.Helper()
	w.set(t, table.RequestKey(id), "attempts", pkgdynamo.String("many"))
}

// set writes an attribute of an item without any condition.
func (w *environment) set(t *testing.T, key pkgdynamo.Item, name string, v types.AttributeValue) {
	t.Helper()
	_, err := w.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: &w.store.Table, Key: key, UpdateExpression: aws.String("SET #name = :v"),
		ExpressionAttributeNames:  map[string]string{"#name": name},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": v},
	})
	require.NoError(t, err)
}

func (w *environment) remaining(t *testing.T) int64 {
	t.Helper()
	items, err := w.store.Read(t.Context(), table.CapacityKey(event))
	require.NoError(t, err)
	c, err := table.DecodeCapacity(items.Get(table.CapacityKey(event)))
	require.NoError(t, err)
	return c.Remaining
}

// ofType reads the whole table, which only tests do, and returns the items of a type.
func (w *environment) ofType(t *testing.T, entity string) []pkgdynamo.Item {
	t.Helper()
	var out []pkgdynamo.Item
	pages := awsdynamo.NewScanPaginator(w.db, &awsdynamo.ScanInput{TableName: &w.store.Table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, it := range page.Items {
			d := pkgdynamo.Reader{Item: it}
			if d.String("entityType") == entity {
				out = append(out, it)
			}
		}
	}
	return out
}

var nextStatus = map[promotion.Status][]promotion.Status{
	"":                    {promotion.Received},
	promotion.Received:    {promotion.Queued},
	promotion.Queued:      {promotion.Processing},
	promotion.Processing:  {promotion.Succeeded, promotion.Rejected, promotion.FailedFinal},
	promotion.FailedFinal: {promotion.Queued},
}

// audit checks the table after all requests are processed: as many successes as places, for the
// first requests in the order of the queue; complete logs in order; each end announced; correct
// figures; and no marker left.
func (w *environment) audit(t *testing.T, places int) {
	t.Helper()
	w.awaitFinished(t)
	logs := map[string][]promotion.LogEntry{}
	for _, it := range w.ofType(t, "STATUS_LOG") {
		l, err := table.DecodeLog(it)
		require.NoError(t, err)
		logs[l.RequestID] = append(logs[l.RequestID], l)
	}
	announced := map[string]int{}
	for _, it := range w.ofType(t, "OUTBOX") {
		o, err := table.DecodeOutbox(it)
		require.NoError(t, err)
		for _, row := range o.Rows {
			announced[fmt.Sprint(row.RequestID, row.Version)]++
		}
	}
	succeeded := 0
	for i, id := range w.sent {
		r := w.request(t, id)
		want, place := promotion.Rejected, 0
		if i < places {
			want, place = promotion.Succeeded, i+1
			succeeded++
		}
		require.Equal(t, want, r.Status, "request %d", i)
		require.Equal(t, int64(place), r.Place, "request %d", i)
		require.Regexp(t, `^0{35}\d{4}\.0[0-8]$`, r.QueueSeq)
		require.Equal(t, 1, announced[fmt.Sprint(id, r.StatusAt)], "request %d", i)
		var at promotion.Status
		for _, l := range logs[id] { // a scan returns a partition in the order of sort keys
			require.Equal(t, at, l.From)
			require.Contains(t, nextStatus[at], l.To)
			at = l.To
		}
		require.Equal(t, r.Status, at)
	}
	require.Equal(t, int64(places-succeeded), w.remaining(t))
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Zero(t, counts.Unsettled())
	require.Equal(t, int64(succeeded), counts.Results[promotion.Success])
}

// awaitFinished waits for the writes that follow the storing of results.
func (w *environment) awaitFinished(t *testing.T) {
	t.Helper()
	testkit.Until(t, func() bool { return len(w.ofType(t, "MARKER")) == 0 }, "nothing is left to do")
}

// touches reports whether a call writes to a request's item.
func touches(in any, id string) bool {
	tx, ok := in.(*awsdynamo.TransactWriteItemsInput)
	if !ok {
		return false
	}
	for _, it := range tx.TransactItems {
		if it.Update == nil {
			continue
		}
		if pk, ok := it.Update.Key[table.PK].(*types.AttributeValueMemberS); ok && pk.Value == "REQ#"+id {
			return true
		}
	}
	return false
}

// ends reports whether a call ends a request as one that was processed.
func ends(in any, id string) bool {
	if !touches(in, id) {
		return false
	}
	for _, it := range in.(*awsdynamo.TransactWriteItemsInput).TransactItems {
		if it.Update == nil {
			continue
		}
		for _, v := range it.Update.ExpressionAttributeValues {
			if s, ok := v.(*types.AttributeValueMemberS); ok && (s.Value == "SUCCEEDED" || s.Value == "REJECTED") {
				return true
			}
		}
	}
	return false
}
