package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/loop"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	ingestReplicas = 2
	workerReplicas = 3
)

// promotions is the ingest and worker services under faults, with one promotion after another.
type promotions struct {
	*harness.Platform
	t     *testing.T
	audit *audit.Promotions
	chance

	users      []ingestv1.IngestServiceClient
	operators  []ingestv1.IngestAdminServiceClient
	redrivers  []workerv1.WorkerAdminServiceClient
	skews      map[replicaID]string // by how much clocks are wrong
	failpoints map[replicaID]string // with which replicas run, unless they died there
	deaths     map[string]int
	receipts   []string // of entries in lotteries, from the answers
	applied    []string // users
}

// chance is a source of random numbers for concurrent use.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func (c *chance) percent(p float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64()*100 < p
}

// pause waits a random time between two acts of a user or two faults, or for the duration of an
// outage. It ends with the test.
func (p *promotions) pause(d time.Duration) { loop.Sleep(p.t.Context(), d) }

// promotionSize is the size of a promotion.
type promotionSize struct {
	applicants, places int
	clients            int           // that apply concurrently
	pace               time.Duration // the longest pause of a client between two applications
	faults             int           // maximum number of faults
}

var (
	longPromotion  = promotionSize{applicants: 250, places: 150, clients: 12, pace: 600 * time.Millisecond, faults: 100}
	largePromotion = promotionSize{applicants: 2000, places: 100, clients: 64, pace: 300 * time.Millisecond, faults: 10}
	shortPromotion = promotionSize{applicants: 60, places: 30, clients: 6, pace: 150 * time.Millisecond, faults: 4}
)

// visibility is how long a message that a dead worker had received stays hidden.
const visibility = "2s"

// setupPromotions starts the replicas with clocks that are wrong by skews.
func setupPromotions(t *testing.T, rng *rand.Rand, skews map[replicaID]string, env map[string][]string) *promotions {
	t.Helper()
	all := map[string][]string{
		platform.Ingest: {"REQUESTS_VISIBILITY=" + visibility, "INGEST_SEND_AFTER=2s"},
		platform.Worker: {"WORKER_RETRY_DELAY=0s"},
	}
	for id, skew := range skews {
		if id.replica == 0 { // for all replicas, until replicas above 0 are restarted
			all[id.service] = append(all[id.service], "URR_FAILPOINTS=clock=skew:"+skew)
		}
	}
	for name, extra := range env {
		all[name] = append(all[name], extra...)
	}
	p := &promotions{t: t, chance: chance{rng: rng}, skews: skews, failpoints: map[replicaID]string{}, deaths: map[string]int{}}
	p.Platform = harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Ingest, platform.Worker}, AWS: true, Env: all,
		Replicas: map[string]int{platform.Ingest: ingestReplicas, platform.Worker: workerReplicas},
	})
	p.audit = audit.OpenPromotions(p.Wiring())
	for i := range ingestReplicas {
		conn := p.Dial(platform.Gateway, platform.Ingest, i)
		p.users = append(p.users, ingestv1.NewIngestServiceClient(conn))
		p.operators = append(p.operators, ingestv1.NewIngestAdminServiceClient(conn))
	}
	for i := range workerReplicas {
		p.redrivers = append(p.redrivers, workerv1.NewWorkerAdminServiceClient(p.Dial(platform.Gateway, platform.Worker, i)))
	}
	return p
}

func promotionOperator() *commonv1.Caller {
	return &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}
}

// open creates a promotion at a replica and returns its id.
func (p *promotions) open(size promotionSize, replica int) (eventID string) {
	p.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		got, err := p.operators[replica].CreatePromotion(ctx, &ingestv1.CreatePromotionRequest{
			Caller: promotionOperator(), Title: "Chaos", EventType: "FIRST_COME", CapacityTotal: int64(size.places),
			OpensAt: timestamppb.New(time.Now().Add(-time.Hour)), ClosesAt: timestamppb.New(time.Now().Add(time.Hour)),
		})
		eventID = got.GetEventId()
		return err
	})
	return eventID
}

// applicants are the users of a promotion and the answers to them.
type applicants struct {
	p       *promotions
	eventID string
	done    chan struct{} // closed when each user was answered

	mu      sync.Mutex
	ids     map[string]map[string]bool // request ids by user
	refused map[string]bool            // users who were refused: nothing was left
}

// apply lets users apply, one in five of them twice at once, until each is answered.
func (p *promotions) apply(eventID string, size promotionSize) *applicants {
	a := &applicants{p: p, eventID: eventID, done: make(chan struct{}), ids: map[string]map[string]bool{}, refused: map[string]bool{}}
	users := make(chan string)
	var work sync.WaitGroup
	for range size.clients {
		work.Go(func() {
			for user := range users {
				a.apply(user)
				p.pause(time.Duration(p.below(int(size.pace))))
			}
		})
	}
	go func() {
		defer close(a.done)
		for i := range size.applicants {
			users <- fmt.Sprintf("user-%d", i)
			if i%5 == 0 {
				users <- fmt.Sprintf("user-%d", i)
			}
		}
		close(users)
		work.Wait()
	}()
	return a
}

// apply repeats an application at random replicas until it is answered.
func (a *applicants) apply(user string) {
	for a.p.t.Context().Err() == nil {
		id, err := a.p.applyAt(a.p.t.Context(), a.p.below(ingestReplicas), a.eventID, user)
		if err != nil && err.Error() == "NOT_OPEN" {
			return // too late for a lottery
		}
		if err != nil && err.Error() == "SOLD_OUT" {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.refused[user] = true
			return
		}
		if err == nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.ids[user] == nil {
				a.ids[user] = map[string]bool{}
			}
			a.ids[user][id] = true
			return
		}
		a.p.pause(50 * time.Millisecond)
	}
}

// applyAt sends an application to a replica once.
func (p *promotions) applyAt(ctx context.Context, replica int, eventID, user string) (requestID string, err error) {
	p.mu.Lock()
	p.applied = append(p.applied, user)
	p.mu.Unlock()
	got, err := p.users[replica].Apply(ctx, &ingestv1.ApplyRequest{Items: []*ingestv1.ApplyItem{{
		Caller: &commonv1.Caller{UserId: user}, EventId: eventID,
	}}})
	if err != nil {
		return "", err
	}
	result := got.GetResults()[0]
	if problem := result.GetProblem(); problem != nil {
		return "", errors.New(problem.GetReason())
	}
	applied := result.GetApplied()
	if receipt := applied.GetReceipt(); receipt != "" {
		p.mu.Lock()
		p.receipts = append(p.receipts, receipt)
		p.mu.Unlock()
	}
	return applied.GetRequestId(), nil
}

// mustApply applies at a replica, which may have just been restarted, until it answers.
func (p *promotions) mustApply(replica int, eventID, user string) (requestID string) {
	p.t.Helper()
	p.Eventually(func(ctx context.Context) (err error) {
		requestID, err = p.applyAt(ctx, replica, eventID, user)
		return err
	})
	return requestID
}

// requireOneEach requires that each user was given one request, which exists. Other requests may
// only exist as records of refusals.
func (a *applicants) requireOneEach(got *audit.Promotion) {
	a.p.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	exist := map[string]bool{}
	for _, r := range got.Requests {
		exist[r.ID] = true
	}
	for user, ids := range a.ids {
		require.Len(a.p.t, ids, 1, "the answers to %s name several requests", user)
		for id := range ids {
			require.True(a.p.t, exist[id], "%s was given %s, which does not exist", user, id)
		}
	}
	for _, r := range got.Requests {
		if a.ids[r.User] == nil {
			require.True(a.p.t, a.refused[r.User], "nobody was told of the request %s of %s", r.ID, r.User)
			require.Equal(a.p.t, "REJECTED_CAPACITY", r.ResultCode)
		}
	}
}

// requireSettled waits until nothing of a promotion is in progress, and requires a faultless audit.
func (p *promotions) requireSettled(eventID string) *audit.Promotion {
	p.t.Helper()
	got := p.awaitSettled(eventID)
	require.Empty(p.t, got.Faults(p.SQS().Sent()).All())
	return got
}

// awaitSettled waits until nothing of a promotion is in progress, including the announcements of
// its results.
func (p *promotions) awaitSettled(eventID string) (got *audit.Promotion) {
	p.t.Helper()
	p.revive()
	p.endLeases()
	p.Eventually(func(ctx context.Context) error {
		if p.revive() { // a failpoint may have been reached only now
			p.endLeases()
		}
		p.pause(100 * time.Millisecond) // reading a promotion more often would slow the services down
		open, err := p.audit.Unsettled(ctx, eventID)
		if err != nil || open > 0 {
			return cmp.Or(err, fmt.Errorf("%d requests are not settled", open))
		}
		p.mu.Lock()
		applied := slices.Clone(p.applied)
		p.mu.Unlock()
		if got, err = p.audit.Get(ctx, eventID, applied...); err != nil {
			return err
		}
		if f := got.Faults(nil); len(f.Unsettled)+len(f.Announcements) > 0 {
			return errors.New(strings.Join(append(f.Unsettled, f.Announcements...), "\n"))
		}
		return nil
	})
	return got
}

// TestPromotionsUnderFaults lets users apply for places while replicas are killed at every
// failpoint and at random, and calls of DynamoDB and SQS fail, conflict, lose answers or repeat
// messages. In the end exactly the first requests have the places, by the SequenceNumbers that the
// proxy before the queue has recorded. The short form is one small promotion with few faults.
func TestPromotionsUnderFaults(t *testing.T) {
	parallelIfShort(t)
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, nil)
	sizes := []promotionSize{shortPromotion}
	if *full {
		sizes = slices.Repeat([]promotionSize{longPromotion}, 20)
	}
	for i, size := range sizes {
		p.disturbedRun(i, size)
	}
	p.logFigures()
}

// TestLargePromotionUnderFaults has twenty times as many applicants as places. Most are rejected
// without the queue, or by the sweeper.
func TestLargePromotionUnderFaults(t *testing.T) {
	if !*full {
		t.Skip("it has 2,000 applicants: make chaos P=LargePromotionUnderFaults")
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, nil)
	p.disturbedRun(0, largePromotion)
	p.logFigures()
}

func (p *promotions) disturbedRun(i int, size promotionSize) {
	began := time.Now()
	eventID := p.open(size, 0)
	before := maps.Clone(p.deaths)
	p.DynamoDB().Use(p.storeFaults)
	p.SQS().Use(p.queueFaults)
	a := p.apply(eventID, size)
	p.disturb(a, size)
	<-a.done
	answered := time.Since(began)
	p.DynamoDB().Use(nil)
	p.SQS().Use(nil)
	got := p.requireSettled(eventID)
	require.Equal(p.t, size.places, got.Succeeded())
	require.Empty(p.t, got.DeadLetters)
	a.requireOneEach(got)
	attempts := int64(0)
	for _, r := range got.Requests {
		attempts += r.Attempts
	}
	died := 0
	for name, n := range p.deaths {
		died += n - before[name]
	}
	p.t.Logf("run %d: %d for %d, answered after %v, settled after %v, %d deaths, %d failed attempts: %v", i, size.applicants, size.places,
		answered.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), died, attempts, got.Counts)
}

// logFigures logs the numbers of calls, faults and deaths.
func (p *promotions) logFigures() {
	for name, proxy := range map[string]interface {
		Calls() (map[string]int, int)
	}{"DynamoDB": p.DynamoDB(), "SQS": p.SQS()} {
		calls, faults := proxy.Calls()
		p.t.Logf("%s: %d faults in the calls %v", name, faults, calls)
	}
	p.t.Logf("deaths: %v", p.deaths)
}
