package rpc_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/dynamo"
	"urr.guru/services/ingest/internal/request"
	"urr.guru/services/ingest/internal/rpc"
	"urr.guru/services/ingest/internal/sqs"
)

// start is the time at which tests begin. It is in the future, so that no item expires.
var start = time.Date(2040, 3, 7, 12, 0, 0, 0, time.UTC)

// environment is a DynamoDB table and an SQS queue that any number of replicas share.
type environment struct {
	tables pkgdynamo.Config
	db     *awsdynamo.Client
	queues queue.Config
	sqs    *awssqs.Client
	clock  *testkit.Clock
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	w := &environment{clock: testkit.NewClock(start)}
	tables, db := dynamotest.Tables(t)
	w.tables, w.db = tables, dynamotest.SoleWriter(db, table.PK)
	require.NoError(t, dynamo.Migrate(t.Context(), w.db, w.tables))
	cfg, client := sqstest.Queue(t)
	w.sqs, w.queues = client, queue.Config{Name: sqstest.Name(cfg), CallTimeout: time.Hour}
	return w
}

func (w *environment) table() string { return w.tables.Table(table.TableName) }

// replica is one replica of the service, with its clients.
type replica struct {
	ingestv1.IngestServiceClient

	admin   ingestv1.IngestAdminServiceClient
	store   *dynamo.Store
	sender  *sqs.Sender
	sweeper *request.Sweeper
	unsent  *request.UnsentList
}

// options are the options of a replica. The zero value means no faults.
type options struct {
	dynamo dynamotest.Hook
	// sqsAddr replaces the address of the SQS queue, usually by one at which nothing listens.
	sqsAddr string
	// opening is the error with which the worker service refuses to open a draw; nil: it opens it.
	opening error
	// skew is by how much the clock of the replica is known to be wrong.
	skew func() time.Duration
	load func(context.Context, string) (request.PromotionLoad, error)
	// sendWait is how long an applicant waits for SQS; 0: until it answers.
	sendWait time.Duration
	// markAfter is how long after sending a request this is recorded; 0: at once.
	markAfter time.Duration
}

func (w *environment) replica(t *testing.T, o options) replica {
	t.Helper()
	db := awsdynamo.New(w.db.Options(), o.dynamo.Options)
	client := w.sqs
	if o.sqsAddr != "" {
		client = awssqs.New(w.sqs.Options(), func(so *awssqs.Options) {
			so.BaseEndpoint, so.Retryer = aws.String("http://"+o.sqsAddr), aws.NopRetryer{}
			so.HTTPClient = http.DefaultClient // which waits for a response as long as the call does
		})
	}
	store := dynamo.New(db, w.tables, time.Minute, w.clock.Now)
	unsent := request.NewUnsent(store, w.clock.Now)
	sender := sqs.New(queue.New(client, w.queues), store, unsent, o.markAfter, time.Hour, w.clock.Now)
	t.Cleanup(func() {
		require.NoError(t, store.Close(context.Background()))
		require.NoError(t, sender.Close(context.Background()))
	})
	if o.load == nil {
		o.load = store.Load
	}
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	store.Skew = o.skew
	log := slog.New(slog.DiscardHandler)
	keys := func() token.SigningKeys { return receiptKeys(t) }
	promotions := request.NewPromotions(store, request.PromotionOptions{
		Keys: keys, Opener: &opener{drawKeys(t), o.opening}, MinDelay: 2 * time.Minute, Lead: 2 * time.Minute, Now: w.clock.Now,
	})
	draws, receipts := request.NewDraws(promotions, store, 1<<20, w.clock.Now), request.NewReceipts(keys, o.skew)
	places := request.NewPlaces(w.clock.Now, store.Capacity)
	service := request.NewService(promotions, store, sender, request.Options{
		Load: o.load, Places: places, SendWait: cmp.Or(o.sendWait, time.Hour), Receipts: receipts, Now: w.clock.Now,
	})
	users := rpc.New(rpc.Config{
		Requests: service, Promotions: promotions, Places: places, Draws: draws, Receipts: receipts, Queries: store, Now: w.clock.Now, Log: log,
	})
	operators := rpc.NewAdmin(promotions, draws, request.NewExporter(draws, store), store, w.clock.Now)
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		ingestv1.RegisterIngestServiceServer(r, users)
		ingestv1.RegisterIngestAdminServiceServer(r, operators)
	}, rpctest.WithDial(pkgrpc.WithTimeout(time.Hour)))
	sweeper := request.NewSweeper(store, sender, unsent, request.SweeperOptions{
		SendAfter: 10 * time.Second, FailAfter: 10 * time.Minute, LostAfter: 5 * time.Minute, Now: w.clock.Now,
	}, log)
	return replica{ingestv1.NewIngestServiceClient(conn), ingestv1.NewIngestAdminServiceClient(conn), store, sender, sweeper, unsent}
}

func user(name string) *commonv1.Caller { return &commonv1.Caller{UserId: name} }

func operator() *commonv1.Caller { return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}} }

func creation() *ingestv1.CreatePromotionRequest {
	return &ingestv1.CreatePromotionRequest{
		Caller: operator(), Title: "Shoes", EventType: "FIRST_COME", CapacityTotal: 5,
		OpensAt: timestamppb.New(start.Add(-time.Hour)), ClosesAt: timestamppb.New(start.Add(24 * time.Hour)),
	}
}

// promotion creates a promotion and returns its id.
func (r replica) promotion(t *testing.T) string {
	t.Helper()
	p, err := r.admin.CreatePromotion(t.Context(), creation())
	require.NoError(t, err)
	return p.GetEventId()
}

// apply sends the application of one caller.
func (r replica) apply(t *testing.T, event string, caller *commonv1.Caller) *ingestv1.ApplyResult {
	t.Helper()
	out, err := r.Apply(t.Context(), &ingestv1.ApplyRequest{Items: []*ingestv1.ApplyItem{{Caller: caller, EventId: event}}})
	require.NoError(t, err)
	require.Len(t, out.GetResults(), 1)
	return out.GetResults()[0]
}

// applied sends an application, which must be accepted. It waits until a sent request is QUEUED.
func (r replica) applied(t *testing.T, event, name string) *ingestv1.Applied {
	t.Helper()
	got := r.apply(t, event, user(name))
	require.Nil(t, got.GetProblem(), "%v", got.GetProblem())
	if got.GetApplied().GetStatus() == "QUEUED" {
		r.awaitQueued(t, got.GetApplied().GetRequestId())
	}
	return got.GetApplied()
}

func (r replica) awaitQueued(t *testing.T, id string) {
	t.Helper()
	testkit.Until(t, func() bool { return r.request(t, id).Status != promotion.Received }, "it is stored as queued")
}

func (r replica) request(t *testing.T, id string) promotion.Request {
	t.Helper()
	got, err := r.store.Get(t.Context(), id)
	require.NoError(t, err)
	return got
}

// bodies receives and deletes messages until the SQS queue is empty, and returns their contents.
func (w *environment) bodies(t *testing.T) []promotion.Message {
	t.Helper()
	out, _ := w.received(t)
	return out
}

// received does what bodies does, and also returns how many SQS messages there were.
func (w *environment) received(t *testing.T) (out []promotion.Message, messages int) {
	t.Helper()
	q := queue.New(w.sqs, w.queues)
	for {
		depth, err := q.Depth(t.Context())
		require.NoError(t, err)
		if depth == 0 {
			return out, messages
		}
		got, err := q.Receive(t.Context())
		require.NoError(t, err)
		for _, m := range got {
			members, err := promotion.DecodeBody(m.Body)
			require.NoError(t, err)
			out, messages = append(out, members...), messages+1
		}
		require.NoError(t, q.Delete(t.Context(), got))
	}
}

// scan reads the whole table, which only tests do.
func (w *environment) scan(t *testing.T) []pkgdynamo.Item {
	t.Helper()
	var all []pkgdynamo.Item
	pages := awsdynamo.NewScanPaginator(w.db, &awsdynamo.ScanInput{TableName: aws.String(w.table()), ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		all = append(all, page.Items...)
	}
	return all
}

// ofType returns the stored items of one type.
func (w *environment) ofType(t *testing.T, entity string) []pkgdynamo.Item {
	t.Helper()
	var out []pkgdynamo.Item
	for _, it := range w.scan(t) {
		d := pkgdynamo.Reader{Item: it}
		if d.String("entityType") == entity {
			out = append(out, it)
		}
	}
	return out
}
