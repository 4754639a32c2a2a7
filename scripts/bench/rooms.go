package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/benchtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// rooms is the number of replicas of the vwr service.
	rooms = 2
	// crowdVisitors is the number of visitors in a round, and crowdClients the number of those who
	// request a position at the same time.
	crowdVisitors, crowdClients = 4000, 1000
	// plainVisitors and plainClients are those of the baseline. With hundreds of clients, DynamoDB
	// Local fails concurrent writes of one item.
	plainVisitors, plainClients = 640, 64
	// idleTime is how long the CPU time of replicas without visitors is measured.
	idleTime = 3 * time.Second
	// refusedPause is how long a visitor waits after a refused request.
	refusedPause = 100 * time.Millisecond

	assignRow = "assign_cpu"
)

// runRooms measures new positions with the settings of make up and two vwr replicas.
func runRooms(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	counter, err := awsproxy.NewCounter(layout.DynamoDBEndpoint())
	if err != nil {
		return err
	}
	defer counter.Close()
	return harness.Run(ctx, harness.Options{
		Production: true, Services: []string{platform.VWR}, Replicas: map[string]int{platform.VWR: rooms},
		Env: map[string][]string{platform.VWR: {"DYNAMODB_ENDPOINT=" + counter.URL(platform.VWR)}},
	}, func(ctx context.Context, p *harness.Platform) error {
		r := newPositionBenchmark(p, counter)
		direct, err := newUnbatchedRoom(ctx, p, layout.DynamoDBEndpoint())
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, addResult, benchRow{result: benchtest.Result{
			Name: assignRow, What: "vwr gives positions to a crowd of new visitors, 1,000 clients", Unit: "CPU-µs per position",
			Besides: "a program that makes one UpdateItem and one PutItem per visitor, without RPC", Must: 5,
			Limits: map[string]float64{platform.VWR: 60},
		}, subject: r.measureCrowd, baseline: direct.measureCPU})
	})
}

// positionBenchmark measures how fast the vwr service gives positions.
type positionBenchmark struct {
	counter *awsproxy.Proxy
	vwrCPU  cpuMeter
	admin   vwrv1.VwrAdminServiceClient
	// vwr has one client per replica. A client sends calls in batches, as the gateway does.
	vwr     [rooms]*batch.Coalescer[*vwrv1.AssignItem, *vwrv1.Assigned]
	refused atomic.Int64 // the number of refused calls
}

func newPositionBenchmark(p *harness.Platform, counter *awsproxy.Proxy) *positionBenchmark {
	r := &positionBenchmark{counter: counter, vwrCPU: processesOf(p, platform.VWR).cpuTimes}
	for i := range r.vwr {
		conn := p.Dial(platform.Gateway, platform.VWR, i, longTimeout())
		r.admin = vwrv1.NewVwrAdminServiceClient(conn)
		r.vwr[i] = batch.NewItems(likeGatewayOfCrowds, batchrpc.Call(vwrv1.NewVwrServiceClient(conn).Assign, func(items []*vwrv1.AssignItem) *vwrv1.AssignRequest {
			return &vwrv1.AssignRequest{Items: items}
		}, (*vwrv1.AssignResult).GetAssigned))
	}
	return r
}

// takeInNewRoom activates a room that serves only one position per hour, lets the crowd get its
// positions, and ends the room. It returns the elapsed time.
func (r *positionBenchmark) takeInNewRoom(ctx context.Context) (time.Duration, error) {
	eventID := newEventID()
	_, err := r.admin.Activate(ctx, &vwrv1.ActivateRequest{Caller: operatorCaller(), EventId: eventID, Batch: new(int64(1)), IntervalSeconds: new(int64(3600))})
	if err != nil {
		return 0, err
	}
	given, took, err := takePositions(ctx, crowdVisitors, crowdClients, func(ctx context.Context, i int) (int64, error) { return r.takePosition(ctx, eventID, i) })
	if err == nil {
		err = given.requireExact()
	}
	_, endErr := r.admin.Deactivate(ctx, &vwrv1.DeactivateRequest{Caller: operatorCaller(), EventId: eventID})
	return took, errors.Join(err, endErr)
}

func newEventID() string { return "bench-" + ids.NewV7().String() }

// takePosition requests the position of a new visitor from one replica, and repeats refused
// requests like the web pages. A replica refuses a call that it cannot answer in time.
func (r *positionBenchmark) takePosition(ctx context.Context, eventID string, visitor int) (int64, error) {
	for {
		got, err := r.vwr[visitor%rooms].Do(ctx, &vwrv1.AssignItem{
			Caller: &commonv1.Caller{AnonId: visitorID(eventID, visitor)}, EventId: eventID,
		})
		switch {
		case err == nil:
			return got.GetPosition(), nil
		case !slices.Contains([]string{errs.ErrOverloaded.Reason, errs.ErrUnavailable.Reason}, errs.From(err).Reason):
			return 0, fmt.Errorf("visitor %d: %w", visitor, err)
		}
		r.refused.Add(1)
		if !loop.Sleep(ctx, refusedPause) {
			return 0, ctx.Err()
		}
	}
}

func visitorID(eventID string, visitor int) string { return fmt.Sprintf("%s-%d", eventID, visitor) }

// measureCrowd measures the CPU time that the vwr service uses until all visitors of a new room
// have a position. It subtracts what the service uses in the same time without visitors ("idle").
func (r *positionBenchmark) measureCrowd(ctx context.Context) (float64, map[string]float64, error) {
	idle, err := r.vwrCPU.perRequest(ctx, 1, func() error {
		loop.Sleep(ctx, idleTime)
		return ctx.Err()
	})
	if err != nil {
		return 0, nil, err
	}
	took, used, err := r.measureRoom(ctx)
	if err != nil {
		return 0, nil, err
	}
	used["idle"] = idle[platform.VWR] * took.Seconds() / idleTime.Seconds() / crowdVisitors
	used[platform.VWR] -= used["idle"]
	return used[platform.VWR], used, nil
}

// measureRoom lets the crowd of a new room get its positions. It returns the elapsed time and, per
// visitor, the CPU time by process, the DynamoDB calls that increment counters or store
// positions (calls), and the refused calls.
func (r *positionBenchmark) measureRoom(ctx context.Context) (took time.Duration, used map[string]float64, err error) {
	refused := r.refused.Load()
	before, _ := r.counter.Calls()
	used, err = r.vwrCPU.perRequest(ctx, crowdVisitors, func() (err error) {
		took, err = r.takeInNewRoom(ctx)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	used["calls"] = float64(r.counter.CallsSince(before, "UpdateItem", "PutItem", "BatchGetItem", "TransactWriteItems", "BatchExecuteStatement")) / crowdVisitors
	used["refused"] = float64(r.refused.Load()-refused) / crowdVisitors
	return took, used, nil
}

// givenPositions are the positions that all visitors got.
type givenPositions []int64

// gapsAndDoubles returns how many positions nobody got although somebody got a higher one (gaps),
// and how often a position was given again (doubles).
func (g givenPositions) gapsAndDoubles() (gaps, doubles int) {
	sorted := slices.Sorted(slices.Values(g))
	last := int64(0)
	for _, p := range sorted {
		if p == last {
			doubles++
		} else {
			gaps += int(p - last - 1)
		}
		last = p
	}
	return gaps, doubles
}

// requireExact returns an error unless the positions are exactly the numbers from 1 to n.
func (g givenPositions) requireExact() error {
	if gaps, doubles := g.gapsAndDoubles(); gaps+doubles > 0 {
		return fmt.Errorf("positions with %d gaps and %d doubles", gaps, doubles)
	}
	return nil
}

// takePositions calls take once for each visitor, for at most `clients` of them at a time. It
// returns the positions and the elapsed time.
func takePositions(ctx context.Context, visitors, clients int, take func(context.Context, int) (int64, error)) (givenPositions, time.Duration, error) {
	positions, began := make(givenPositions, visitors), time.Now()
	err := runConcurrently(ctx, clients, visitors, func(ctx context.Context, i int) (err error) {
		positions[i], err = take(ctx, i)
		return err
	})
	return positions, time.Since(began), err
}

// unbatchedRoom is the baseline: each call gives one position, in tables like the vwr service's.
type unbatchedRoom struct {
	db                  *dynamodb.Client
	counters, positions string
}

func newUnbatchedRoom(ctx context.Context, p *harness.Platform, endpoint string) (unbatchedRoom, error) {
	tables := pkgdynamo.Config{Region: "ap-northeast-2", Endpoint: endpoint, Prefix: p.Wiring().DynamoDBPrefix}
	db, err := pkgdynamo.Open(ctx, tables)
	return unbatchedRoom{db: db, counters: tables.Table("vwr-counters"), positions: tables.Table(positionsTable)}, err
}

// takeInNewRoom lets each visitor of a new room get a position.
func (r unbatchedRoom) takeInNewRoom(ctx context.Context) error {
	eventID := newEventID()
	_, _, err := takePositions(ctx, plainVisitors, plainClients, func(ctx context.Context, i int) (int64, error) {
		return r.assign(ctx, eventID, visitorID(eventID, i))
	})
	return err
}

// measureCPU measures the CPU time of this process, which makes the calls.
func (r unbatchedRoom) measureCPU(ctx context.Context) (float64, map[string]float64, error) {
	used, err := cpuMeter(processes{"client": {os.Getpid()}}.cpuTimes).perRequest(ctx, plainVisitors, func() error { return r.takeInNewRoom(ctx) })
	return used["client"], nil, err
}

const (
	// nextPosition is the attribute with the next position, also in the vwr service.
	nextPosition = "nextPosition"
	// positionsTable is the table of the vwr service with the records of visitors.
	positionsTable = "vwr-positions"
)

// assign increments the room's counter, and stores the visitor's record with the new position.
func (r unbatchedRoom) assign(ctx context.Context, eventID, visitor string) (int64, error) {
	now := time.Now()
	counted, err := r.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:        &r.counters,
		Key:              pkgdynamo.Item{"eventId": pkgdynamo.String(eventID)},
		UpdateExpression: aws.String("ADD " + nextPosition + " :one SET updatedAt = :now"),
		ExpressionAttributeValues: pkgdynamo.Item{
			":one": pkgdynamo.Number(1), ":now": pkgdynamo.Number(now.UnixMilli()),
		},
		ReturnValues: types.ReturnValueUpdatedNew,
	})
	if err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	reader := pkgdynamo.Reader{Item: counted.Attributes}
	position := reader.Number(nextPosition)
	_, err = r.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &r.positions,
		Item: pkgdynamo.Item{
			"eventId": pkgdynamo.String(eventID), "requestId": pkgdynamo.String(ids.NewV7().String()), "position": pkgdynamo.Number(position),
			"userId": pkgdynamo.String(visitor), "activatedAt": pkgdynamo.Number(now.UnixMicro()), "createdAt": pkgdynamo.Number(now.UnixMilli()),
			"ttl": pkgdynamo.Number(now.Add(24 * time.Hour).Unix()),
		},
		ConditionExpression: aws.String("attribute_not_exists(eventId)"),
	})
	return position, errors.Join(reader.Err(), err)
}
