package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/platform"
)

// crowded is a promotion whose requests are received in two batches.
var crowded = promotionSize{applicants: 12, places: 8}

// TestPoisonedPromotions has a request that DynamoDB refuses, or one that kills every worker that
// writes its result. It becomes a dead letter after its attempts, and the requests received with it
// get results in order. An operator redrives it twice, and it ends once the cause is gone.
func TestPoisonedPromotions(t *testing.T) {
	if !*full {
		t.Skip("it kills a dozen workers, one after another: make chaos P=PoisonedPromotions")
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, nil)
	roomy := crowded
	roomy.places = crowded.applicants
	for name, tc := range map[string]poison{
		"refused, and others take all places": {crowded, p.refuse, "", "SETTLE_FAILED", "REJECTED_CAPACITY"},
		"refused":                             {roomy, p.refuse, "", "SETTLE_FAILED", "SUCCESS"},
		"refused, and those die who give up":  {roomy, p.refuse, "worker.buried", "SETTLE_FAILED", "SUCCESS"},
		"kills the worker":                    {roomy, p.killSettlers, "", "SUSPECTED", "SUCCESS"},
	} {
		t.Run(name, func(t *testing.T) {
			p.poisoned(t, tc)
		})
	}
	p.logFigures()
}

// poison is one request of a promotion whose result cannot be written.
type poison struct {
	size      promotionSize
	rule      func(id string) awsproxy.Rule
	failpoint string // failpoint with which the workers start; empty: none
	code      string
	result    string // result code once the cause is gone
}

func (p *promotions) poisoned(t *testing.T, tc poison) {
	t.Helper()
	size := tc.size
	p.stopWorkers()
	eventID := p.open(size, 0)
	var ids []string
	for i := range size.applicants {
		ids = append(ids, p.mustApply(i%ingestReplicas, eventID, fmt.Sprint("user-", i)))
	}
	p.awaitQueued(eventID)
	poisonID := ids[4]
	p.DynamoDB().Use(tc.rule(poisonID))
	began := time.Now()
	if tc.failpoint != "" {
		for i := range workerReplicas {
			p.begin(replicaID{platform.Worker, i}, tc.failpoint+"@1=exit")
		}
	}
	p.revive()
	got := p.requireSettled(eventID)
	if tc.failpoint != "" {
		require.NotZero(t, p.deaths[tc.failpoint])
	}
	r := requestOf(t, got, poisonID)
	require.Equal(t, "FAILED_FINAL FAILED_WORKER "+tc.code, strings.Join([]string{r.Status, r.ResultCode, r.ErrorCode}, " "))
	require.EqualValues(t, 5, r.Attempts)
	require.Equal(t, []string{poisonID}, got.DeadLetters)
	require.Equal(t, min(size.places, size.applicants-1), got.Succeeded())
	t.Logf("a dead letter after %v, deaths %v", time.Since(began).Round(time.Millisecond), p.deaths)

	began, redriven := time.Now(), int64(1)
	if got.Remaining > 0 { // else the ingest service may reject it early
		redriven++
		p.redrive(t, eventID, poisonID)
		got = p.requireSettled(eventID)
		require.Equal(t, "FAILED_WORKER", requestOf(t, got, poisonID).ResultCode, "the cause is still there")
		require.Len(t, got.DeadLetters, 2)
	}
	p.DynamoDB().Use(nil)
	p.redrive(t, eventID, poisonID)
	r = requestOf(t, p.requireSettled(eventID), poisonID)
	require.Equal(t, tc.result, r.ResultCode)
	require.Equal(t, redriven, r.Gen)
	require.Less(t, time.Since(began), 5*time.Minute, "SQS recognises repeated messages for so long")
	t.Logf("redriven %d times and settled after %v, deaths %v", redriven, time.Since(began).Round(time.Millisecond), p.deaths)
}

// settles reports whether a call is a worker's write of a request's result.
func settles(c awsproxy.Call, id string) bool {
	return strings.HasPrefix(c.Caller, platform.Worker) && c.FindItem("REQ#"+id, "META") >= 0 && c.FindItem("OUTBOX#", "") >= 0 && c.FindItem("DLQ#", "") < 0
}

// refuse makes DynamoDB refuse every write of a request's result.
func (*promotions) refuse(id string) awsproxy.Rule {
	return func(c awsproxy.Call) awsproxy.Fault {
		if !settles(c, id) {
			return awsproxy.Fault{}
		}
		return awsproxy.Canceled(c, c.FindItem("REQ#"+id, "META"), awsproxy.Validation)
	}
}

// killSettlers kills each worker that writes a request's result.
func (p *promotions) killSettlers(id string) awsproxy.Rule {
	return func(c awsproxy.Call) awsproxy.Fault {
		if !settles(c, id) {
			return awsproxy.Fault{}
		}
		i, err := strconv.Atoi(strings.TrimPrefix(c.Caller, platform.Worker+"-"))
		if err == nil {
			err = syscall.Kill(p.Service(platform.Worker).PID(i), syscall.SIGKILL)
		}
		if err != nil {
			p.t.Errorf("kill %s: %v", c.Caller, err)
		}
		p.mu.Lock()
		p.deaths["settled "+id]++
		p.mu.Unlock()
		return awsproxy.Fault{Cut: true}
	}
}

// redrive begins a failed request anew. It repeats the call, whose answer may be lost, until the
// request has a new generation.
func (p *promotions) redrive(t *testing.T, eventID, id string) {
	t.Helper()
	before, err := p.audit.Get(t.Context(), eventID)
	require.NoError(t, err)
	p.Eventually(func(ctx context.Context) error {
		p.revive()
		_, failure := p.redrivers[p.below(workerReplicas)].RedriveRequests(ctx, &workerv1.RedriveRequestsRequest{
			Caller: promotionOperator(), Ids: []string{id},
		})
		now, err := p.audit.Get(ctx, eventID)
		if err != nil {
			return err
		}
		if requestOf(t, now, id).Gen == requestOf(t, before, id).Gen {
			return cmp.Or(failure, errors.New("it has not begun anew"))
		}
		return nil
	})
}

func requestOf(t *testing.T, p *audit.Promotion, id string) audit.EventRequest {
	t.Helper()
	for _, r := range p.Requests {
		if r.ID == id {
			return r
		}
	}
	require.Fail(t, "no request", id)
	return audit.EventRequest{}
}

// TestStoreAwayKeepsRequestsAlive makes DynamoDB unavailable for longer than it takes until SQS
// would move unprocessed messages to the dead-letter queue. No request ends there.
func TestStoreAwayKeepsRequestsAlive(t *testing.T) {
	if !*full {
		t.Skip("worker has a test of its own: make chaos P=StoreAwayKeepsRequestsAlive")
	}
	const away = 20 * time.Second
	size := promotionSize{applicants: 40, places: 25}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, nil)
	live, dead := p.limitReceives(5)
	p.stopWorkers()
	eventID := p.open(size, 0)
	for i := range size.applicants {
		p.mustApply(i%ingestReplicas, eventID, fmt.Sprint("user-", i))
	}
	p.awaitQueued(eventID)
	var calls atomic.Int64
	p.DynamoDB().Use(func(awsproxy.Call) awsproxy.Fault {
		calls.Add(1)
		return awsproxy.Fault{Cut: true}
	})
	var starts sync.WaitGroup
	starts.Go(func() { p.revive() }) // the workers run at once, and are ready once DynamoDB answers
	p.pause(away)
	t.Logf("%d calls while DynamoDB was away", calls.Load())
	p.DynamoDB().Use(nil)
	starts.Wait()
	got := p.requireSettled(eventID)
	require.Equal(t, size.places, got.Succeeded())
	require.Empty(t, got.DeadLetters)
	for _, r := range got.Requests {
		require.Zero(t, r.Gen, "%s went back from the dead-letter queue", r.ID)
		require.Zero(t, r.Attempts, "%s is blamed", r.ID)
	}
	require.Empty(t, dead())
	t.Logf("left in the queue: %v", live())
	p.logFigures()
}

// limitReceives makes SQS move messages that were received n times to the dead-letter queue, as an
// operator may. live and dead return the numbers of messages in the two queues.
func (p *promotions) limitReceives(n int) (live, dead func() string) {
	p.t.Helper()
	w := p.Wiring()
	client := sqs.New(sqs.Options{
		Region: "local", BaseEndpoint: aws.String(w.SQSEndpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	attributes := func(suffix string) (url string, all map[string]string) {
		got, err := client.GetQueueUrl(p.t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(w.RequestsQueue + suffix)})
		require.NoError(p.t, err)
		reply, err := client.GetQueueAttributes(p.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: got.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		require.NoError(p.t, err)
		return *got.QueueUrl, reply.Attributes
	}
	_, target := attributes("-dlq.fifo")
	url, _ := attributes(".fifo")
	_, err := client.SetQueueAttributes(p.t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn": %q, "maxReceiveCount": "%d"}`, target["QueueArn"], n),
	}})
	require.NoError(p.t, err)
	depth := func(suffix string) func() string {
		return func() string {
			_, all := attributes(suffix)
			return strings.Trim(all["ApproximateNumberOfMessages"]+all["ApproximateNumberOfMessagesNotVisible"], "0")
		}
	}
	return depth(".fifo"), depth("-dlq.fifo")
}
