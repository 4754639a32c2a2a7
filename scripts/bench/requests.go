package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/benchtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/sqs"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	workers = 3
	// decided is the number of requests in a round, over all its promotions.
	decided, promotions = 640, 8

	settleRow = "first_come_settle"
)

// runRequests measures how three workers decide about requests of promotions.
func runRequests(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	c, err := startCountingProxies(layout)
	defer c.close()
	if err != nil {
		return err
	}
	return harness.Run(ctx, harness.Options{
		Production: true, Services: []string{platform.Ingest, platform.Worker}, // ingest makes the table and the queue
		Replicas: map[string]int{platform.Worker: workers},
		Env: map[string][]string{
			platform.Worker: {"DYNAMODB_ENDPOINT=" + c.settling.URL(platform.Worker), "SQS_ENDPOINT=" + c.receiving.URL(platform.Worker)},
		},
	}, func(ctx context.Context, p *harness.Platform) error {
		r, err := newRequestRows(ctx, p, layout, c)
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, addResult, benchRow{result: benchtest.Result{
			Name: settleRow, What: "worker settles a request, 8 promotions", Besides: "one transaction per request", Unit: "µs per request",
			Must: 2, Aim: 4, Limits: map[string]float64{"calls": 0.1, "conflicts": 1 / 0.7},
		}, subject: r.measureSettle, baseline: r.measureSettleBaseline})
	})
}

// countingProxies are the proxies that count the workers' calls.
type countingProxies struct {
	settling, receiving *awsproxy.Proxy // to DynamoDB and SQS
}

func startCountingProxies(layout platform.Layout) (countingProxies, error) {
	settling, err := awsproxy.NewCounter(layout.DynamoDBEndpoint())
	receiving, receivingErr := awsproxy.NewCounter(layout.SQSEndpoint())
	return countingProxies{settling, receiving}, errors.Join(err, receivingErr)
}

func (c countingProxies) close() {
	for _, p := range []*awsproxy.Proxy{c.settling, c.receiving} {
		if p != nil {
			p.Close()
		}
	}
}

// requestRows measures how the worker service decides about requests.
type requestRows struct {
	calls countingProxies
	store table.Store
	queue *queue.Queue // the queue that the workers read
	plain *queue.Queue // the queue that only the baseline reads
}

func newRequestRows(ctx context.Context, p *harness.Platform, layout platform.Layout, c countingProxies) (*requestRows, error) {
	w := p.Wiring()
	tables := pkgdynamo.Config{Region: "ap-northeast-2", Endpoint: layout.DynamoDBEndpoint(), Prefix: w.DynamoDBPrefix}
	db, err := pkgdynamo.Open(ctx, tables)
	if err != nil {
		return nil, err
	}
	client, err := sqs.Open(ctx, sqs.Config{Region: tables.Region, Endpoint: layout.SQSEndpoint()})
	if err != nil {
		return nil, err
	}
	live := queue.Config{Name: w.RequestsQueue}
	plain := queue.Config{Name: w.RequestsQueue + "-plain"}
	if err := queue.Ensure(ctx, client, plain, time.Minute, false); err != nil {
		return nil, err
	}
	return &requestRows{
		calls: c, store: table.NewStore(pkgdynamo.Leases{Client: db, Table: tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: time.Now}),
		queue: queue.New(client, live), plain: queue.New(client, plain),
	}, nil
}

// newPromotion stores a promotion with enough places for all applicants of a round.
func (r *requestRows) newPromotion(ctx context.Context) (*promotion.Promotion, error) {
	now := r.store.Millis()
	p := &promotion.Promotion{
		EventID: ids.NewV7().String(), Title: "Bench", EventType: promotion.FirstCome, CapacityTotal: 1_000_000, OpensAt: now - 1000,
		ClosesAt: now + time.Hour.Milliseconds(), Shards: 1, CreatedAt: now, Version: 1,
	}
	places := promotion.Capacity{EventID: p.EventID, Total: p.CapacityTotal, Remaining: p.CapacityTotal, UpdatedAt: now}
	tx := r.store.Begin()
	tx.Put(table.Shared, table.PromotionItem(p), table.Absent())
	tx.Put(table.Shared, table.CapacityItem(&places), table.Absent())
	return p, tx.Commit(ctx)
}

// awaitSettled waits until n requests of these promotions, in all, have a place.
func (r *requestRows) awaitSettled(ctx context.Context, n int, all ...*promotion.Promotion) error {
	keys := make([]pkgdynamo.Item, len(all))
	for i, p := range all {
		keys[i] = table.CapacityKey(p.EventID)
	}
	for {
		items, err := r.store.Read(ctx, keys...)
		if err != nil {
			return err
		}
		var taken int64
		for _, key := range keys {
			places, err := table.DecodeCapacity(items.Get(key))
			if err != nil {
				return err
			}
			taken += places.Total - places.Remaining
		}
		if taken >= int64(n) {
			return nil
		}
		if !loop.Sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// measureSettle measures how fast the workers decide about requests. They receive no message before
// all are in the queue, so that they receive full batches, as when many users apply at once.
func (r *requestRows) measureSettle(ctx context.Context) (float64, map[string]float64, error) {
	all, err := r.storeRequests(ctx, promotions, decided/promotions)
	if err != nil {
		return 0, nil, err
	}
	before, _ := r.calls.settling.Calls()
	µs, err := r.settleAll(ctx, all, promotion.MaxMembers, nil)
	if err != nil {
		return 0, nil, err
	}
	count := func(operations ...string) float64 {
		return float64(r.calls.settling.CallsSince(before, operations...)) / decided
	}
	parts := map[string]float64{"calls": count("BatchGetItem", "TransactWriteItems"), "reads": count("BatchGetItem"), "behind_calls": count("Query", "DeleteItem", "BatchWriteItem")}
	return µs, parts, r.addOnePromotion(ctx, parts)
}

// settleAll sends all requests, at most perMessage in a message, has the workers decide about them,
// and returns µs per request. Meanwhile, rule chooses the faults of the workers' SQS calls.
func (r *requestRows) settleAll(ctx context.Context, all unsentRequests, perMessage int, rule awsproxy.Rule) (float64, error) {
	start, err := r.holdWorkers(ctx, rule)
	if err == nil {
		err = sendMessages(ctx, r.queue, all, perMessage)
	}
	began := time.Now()
	start()
	n := len(all.promotions) * len(all.messages[0])
	if err == nil {
		err = r.awaitSettled(ctx, n, all.promotions...)
	}
	return microsPerItem(time.Since(began), n), err
}

// holdWorkers delays the workers' calls that receive messages until start is called. It returns
// when all of the workers' receivers wait. After the start, rule chooses the faults of these calls.
func (r *requestRows) holdWorkers(ctx context.Context, rule awsproxy.Rule) (start func(), err error) {
	var held atomic.Int32
	begin := make(chan struct{})
	r.calls.receiving.Use(func(c awsproxy.Call) awsproxy.Fault {
		if c.Name == "ReceiveMessage" {
			held.Add(1)
			<-begin
		}
		return awsproxy.Fault{}
	})
	start = func() {
		r.calls.receiving.Use(rule)
		close(begin)
	}
	for held.Load() < workers*(receivers+1) { // one more in each worker receives dead letters
		if !loop.Sleep(ctx, 20*time.Millisecond) {
			return start, ctx.Err()
		}
	}
	return start, nil
}

// measureSettleBaseline measures the baseline: as many receivers decide about requests one by one.
func (r *requestRows) measureSettleBaseline(ctx context.Context) (float64, map[string]float64, error) {
	all, err := r.storeRequests(ctx, promotions, decided/promotions)
	if err != nil {
		return 0, nil, err
	}
	if err := sendMessages(ctx, r.plain, all, 1); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for range workers * receivers {
		group.Go(func() error { return r.settleUnbatched(receiving) })
	}
	err = r.awaitSettled(ctx, decided, all.promotions...)
	µs := microsPerItem(time.Since(began), decided)
	stop()
	return µs, nil, errors.Join(err, group.Wait())
}
