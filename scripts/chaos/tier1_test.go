package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// tier1 is one waiting room on replicas of the vwr service that are killed. The test calls each
// replica directly, as a gateway does.
type tier1 struct {
	*harness.Platform
	t *testing.T
	chance

	eventID  string
	replicas int
	visitors []vwrv1.VwrServiceClient // of each replica
	admins   []vwrv1.VwrAdminServiceClient
	db       *dynamodb.Client
	tables   pkgdynamo.Config
	round    int64 // start of the current round
}

func setupTier1(t *testing.T, replicas int, rng *rand.Rand, eventID string, opts harness.Options) *tier1 {
	t.Helper()
	opts.Replicas = map[string]int{platform.VWR: replicas}
	if !slices.Contains(opts.Services, platform.VWR) {
		opts.Services = append(opts.Services, platform.VWR)
	}
	r := &tier1{t: t, chance: chance{rng: rng}, eventID: eventID, replicas: replicas, Platform: harness.Start(t, opts)}
	for i := range replicas {
		conn := r.Dial(platform.Gateway, platform.VWR, i)
		r.visitors = append(r.visitors, vwrv1.NewVwrServiceClient(conn))
		r.admins = append(r.admins, vwrv1.NewVwrAdminServiceClient(conn))
	}
	w := r.Wiring()
	r.tables = pkgdynamo.Config{Region: w.AWSRegion, Endpoint: w.DynamoDBEndpoint, Prefix: w.DynamoDBPrefix}
	var err error
	r.db, err = pkgdynamo.Open(t.Context(), r.tables)
	require.NoError(t, err)
	return r
}

// roomOperator is the caller of operators' calls.
var roomOperator = &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}

// act makes an operator's call at one replica after another, until one accepts it.
func (r *tier1) act(call func(context.Context, vwrv1.VwrAdminServiceClient) (*vwrv1.VwrStatus, error)) (got *vwrv1.VwrStatus) {
	r.t.Helper()
	i := 0
	r.Eventually(func(ctx context.Context) (err error) {
		got, err = call(ctx, r.admins[i%r.replicas])
		i++
		return err
	})
	return got
}

func (r *tier1) activate(req *vwrv1.ActivateRequest) *vwrv1.VwrStatus {
	r.t.Helper()
	req.Caller, req.EventId = roomOperator, r.eventID
	got := r.act(func(ctx context.Context, c vwrv1.VwrAdminServiceClient) (*vwrv1.VwrStatus, error) {
		return c.Activate(ctx, req)
	})
	r.round = got.GetActivatedAt()
	return got
}

func (r *tier1) deactivate() {
	r.t.Helper()
	r.act(func(ctx context.Context, c vwrv1.VwrAdminServiceClient) (*vwrv1.VwrStatus, error) {
		return c.Deactivate(ctx, &vwrv1.DeactivateRequest{Caller: roomOperator, EventId: r.eventID})
	})
}

// guest is a visitor of the room.
type guest struct {
	id        string // visitor id, as in the signed cookie
	requestID string
	ticket    string
	position  int64
	token     string
}

func (r *tier1) newGuests(n int) []*guest {
	all := make([]*guest, n)
	for i := range all {
		all[i] = &guest{id: fmt.Sprintf("%s-%d-%d", r.eventID, time.Now().UnixNano(), i)}
	}
	return all
}

// maxItems is the maximum number of items in one call.
const maxItems = 1000

// retryable reports whether the pages would send the item again.
func retryable(p *commonv1.Problem) bool {
	return slices.Contains([]string{errs.ErrOverloaded.Reason, errs.ErrUnavailable.Reason, errs.ErrDeadline.Reason}, p.GetReason())
}

// enter gets positions for guests, in batches from random replicas, until each has one.
func (r *tier1) enter(guests []*guest) {
	r.t.Helper()
	for part := range slices.Chunk(guests, maxItems) {
		for remaining := part; len(remaining) > 0; {
			req := &vwrv1.AssignRequest{}
			for _, g := range remaining {
				req.Items = append(req.Items, &vwrv1.AssignItem{Caller: &commonv1.Caller{AnonId: g.id}, EventId: r.eventID})
			}
			out, err := r.visitors[r.below(r.replicas)].Assign(r.t.Context(), req)
			if err != nil {
				require.NoError(r.t, r.t.Context().Err())
				loop.Sleep(r.t.Context(), 50*time.Millisecond)
				continue
			}
			var retry []*guest
			for i, g := range remaining {
				a := out.GetResults()[i].GetAssigned()
				if a == nil {
					require.True(r.t, retryable(out.GetResults()[i].GetProblem()), "%v", out.GetResults()[i].GetProblem())
					retry = append(retry, g)
					continue
				}
				g.requestID, g.ticket, g.position = a.GetRequestId(), a.GetTicket(), a.GetPosition()
			}
			remaining = retry
		}
	}
}

// fetch fetches the tokens of guests whose positions are served, from one replica, which claims
// these positions. A guest without an answer asks again at the next call of fetch.
func (r *tier1) fetch(ctx context.Context, replica int, guests []*guest) {
	for part := range slices.Chunk(guests, maxItems) {
		req := &vwrv1.CheckRequest{}
		for _, g := range part {
			req.Items = append(req.Items, &vwrv1.CheckItem{
				Caller: &commonv1.Caller{AnonId: g.id}, EventId: r.eventID, RequestId: g.requestID, Ticket: g.ticket,
			})
		}
		out, err := r.visitors[replica].Check(ctx, req)
		if err != nil {
			continue
		}
		for i, g := range part {
			if c := out.GetResults()[i].GetChecked(); c != nil {
				g.token = c.GetToken()
			}
		}
	}
}

// sample is a value that the serving counter had at some time from before to after.
type sample struct {
	before, after time.Time
	serving       int64
}

// watch samples the serving counter in the store repeatedly, until the result is called.
func (r *tier1) watch() (samples func() []sample) {
	var (
		all  []sample
		end  = make(chan struct{})
		work sync.WaitGroup
	)
	work.Go(func() {
		for tick := time.NewTicker(25 * time.Millisecond); ; {
			before := time.Now()
			if serving, err := r.serving(r.t.Context()); err == nil {
				all = append(all, sample{before, time.Now(), serving})
			}
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	return func() []sample {
		close(end)
		work.Wait()
		return all
	}
}

// serving reads the serving counter: the last position that is served.
func (r *tier1) serving(ctx context.Context) (int64, error) {
	return r.number(ctx, "vwr-counters", map[string]string{"eventId": r.eventID}, "servingCounter")
}

// claimed reads the number of claimed positions of the round.
func (r *tier1) claimed(ctx context.Context) (int64, error) {
	key := map[string]string{"eventId": r.eventID + "#claims", "requestId": strconv.FormatInt(r.round, 10) + "#count"}
	return r.number(ctx, "vwr-positions", key, "claimed")
}

// number reads a number attribute of an item consistently.
func (r *tier1) number(ctx context.Context, table string, key map[string]string, name string) (int64, error) {
	k := make(map[string]types.AttributeValue, len(key))
	for attribute, v := range key {
		k[attribute] = &types.AttributeValueMemberS{Value: v}
	}
	out, err := r.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(r.tables.Table(table)), Key: k, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return 0, err
	}
	item := pkgdynamo.Reader{Item: out.Item}
	return item.Number(name), item.Err()
}
