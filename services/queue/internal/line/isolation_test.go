package line_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
)

// blockingHook blocks every command with keyPart in an argument, like a server that hangs, until
// open is closed.
type blockingHook struct {
	keyPart string
	blocked chan struct{}
	open    chan struct{}
	close   func()
}

func newBlockingHook(t *testing.T, keyPart string) *blockingHook {
	t.Helper()
	j := &blockingHook{keyPart: keyPart, blocked: make(chan struct{}, 1000), open: make(chan struct{})}
	j.close = sync.OnceFunc(func() { close(j.open) })
	t.Cleanup(j.close)
	return j
}

func (j *blockingHook) wait(cmds ...goredis.Cmder) {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			if s, ok := arg.(string); ok && strings.Contains(s, j.keyPart) {
				j.blocked <- struct{}{}
				<-j.open
				return
			}
		}
	}
}

func (j *blockingHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		j.wait(cmd)
		return next(ctx, cmd)
	}
}

func (j *blockingHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		j.wait(cmds...)
		return next(ctx, cmds)
	}
}

func (j *blockingHook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// newEnvWithHangingEvent returns an environment with two events, and a replica that knows both.
// Redis calls for the event whose id is stuck hang.
func newEnvWithHangingEvent(t *testing.T) (w *testEnv, r *replica, stuck string, j *blockingHook) {
	t.Helper()
	w = newTestEnv(t)
	w.client = redistest.Open(t) // with its own hook
	r = w.replica()
	stuck = w.event + "-stuck"
	for _, id := range []string{w.event, stuck} {
		r.open(t, id)
		require.NoError(t, r.check(t.Context(), id, "in").Err)
	}
	j = newBlockingHook(t, "{"+stuck+"}")
	w.client.AddHook(j)
	return w, r, stuck, j
}

func containsAll(s string, words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
}

func requests(event string, users ...string) []line.PlaceRequest {
	out := make([]line.PlaceRequest, len(users))
	for i, u := range users {
		out[i] = line.PlaceRequest{EventID: event, Visitor: line.Visitor{UserID: u}}
	}
	return out
}

// While Redis hangs for one event, calls for other events succeed in time.
func TestHangingEventDelaysNoOther(t *testing.T) {
	w, r, stuck, j := newEnvWithHangingEvent(t)
	slot := slotOf(t, w, "in")
	token := line.EntryClaims{SlotID: slot, Epoch: epochOf(t, r, w.event), End: w.clock.Now().UnixMilli() + 1e6}
	var blocked sync.WaitGroup
	for i := range 20 { // more than the parallel batches
		user := "u-" + strconv.Itoa(i)
		blocked.Go(func() { r.service.Check(context.WithoutCancel(t.Context()), requests(stuck, user)) })
		blocked.Go(func() { r.service.Status(context.WithoutCancel(t.Context()), requests(stuck, user)) })
		blocked.Go(func() {
			r.service.VerifySlots(context.WithoutCancel(t.Context()), []line.SlotQuery{{EventID: stuck, UserID: user, SlotID: slot, Epoch: token.Epoch}})
		})
	}
	for range 8 {
		testkit.Receive(t, j.blocked, "calls hang")
	}
	require.NoError(t, r.check(t.Context(), w.event, "w").Err)
	status := r.service.Status(t.Context(), requests(w.event, "w"))
	require.NoError(t, status[0].Err)
	require.Equal(t, line.StatusQueued, status[0].Place.Status)
	verdict := r.service.VerifySlots(t.Context(), []line.SlotQuery{{EventID: w.event, UserID: "in", SlotID: slot, Epoch: token.Epoch}})
	require.NoError(t, verdict[0].Err)
	require.True(t, verdict[0].Active)
	j.close()
	blocked.Wait()
}

func epochOf(t *testing.T, r *replica, event string) int64 {
	t.Helper()
	o, err := r.service.ReadOverview(t.Context(), event)
	require.NoError(t, err)
	return o.Epoch
}

// While Redis hangs for one event, the lines of other events are ticked.
func TestHangingLineDelaysNoOtherTick(t *testing.T) {
	testkit.SkipIfShort(t, "long tests with faults")
	w, r, _, j := newEnvWithHangingEvent(t)
	require.NoError(t, r.check(t.Context(), w.event, "w").Err)
	slot := slotOf(t, w, "in")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.worker.RunTicks(ctx) }()
	testkit.Receive(t, j.blocked, "the tick of the other line hangs")
	ticked := func() bool {
		at, err := w.client.HGet(t.Context(), "{"+w.event+"}:line", "tickAt").Int64()
		return err == nil && at == w.clock.Now().UnixMilli()
	}
	testkit.Until(t, ticked, "the first tick")
	w.clock.Advance(time.Second)
	testkit.Until(t, ticked, "and the next")
	require.NoError(t, r.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slot}))
	w.clock.Advance(time.Second)
	testkit.Until(t, func() bool {
		n, err := w.client.ZScore(t.Context(), "{"+w.event+"}:active", "w").Result()
		return err == nil && n > 0
	}, "who is next is admitted")
	j.close()
	stop()
	require.NoError(t, <-done)
}

// failingStore is a store in which only one line can be ticked. The first tick of any other line
// fails at once, later ones hang. It uses no server, which could also fail for the healthy line.
type failingStore struct {
	line.Store

	healthy string
	failed  sync.Map // lines that failed once
	ticked  chan struct{}
	hung    chan struct{}
	open    chan struct{}
}

func (f *failingStore) ListEvents(context.Context) ([]string, error) {
	ids := []string{f.healthy}
	for i := range 100 { // more than all ticks in progress can handle
		ids = append(ids, f.healthy+"-"+strconv.Itoa(i))
	}
	return ids, nil
}

// ClaimTicks claims every line each time.
func (f *failingStore) ClaimTicks(ctx context.Context, _ line.TickRequest) (line.TickPlan, error) {
	ids, err := f.ListEvents(ctx)
	return line.TickPlan{Due: ids}, err
}

func (*failingStore) ReportTicks(context.Context, line.TickResults) error { return nil }

func (*failingStore) AddEvents(context.Context, ...string) error { return nil }

func (*failingStore) RemoveEvent(context.Context, string) error { return errs.ErrUnavailable }

func (f *failingStore) Admit(_ context.Context, eventID string, _ line.KnownState) (line.LineState, line.AdmissionResult, error) {
	if eventID == f.healthy {
		f.ticked <- struct{}{}
		return line.LineState{}, line.AdmissionResult{}, nil
	}
	if _, again := f.failed.LoadOrStore(eventID, true); again {
		f.hung <- struct{}{}
		<-f.open
	}
	return line.LineState{}, line.AdmissionResult{}, errs.ErrUnavailable
}

// Healthy lines are ticked, however many other lines fail slowly.
func TestFailingLinesDelayNoHealthyLine(t *testing.T) {
	w := newTestEnv(t)
	store := &failingStore{
		Store: w.store(), healthy: w.event,
		ticked: make(chan struct{}), hung: make(chan struct{}, 1000), open: make(chan struct{}),
	}
	worker := line.NewWorker(w.replicaOn(store).service, 10*time.Millisecond, time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.RunTicks(ctx) }()
	ticks := func() { testkit.Receive(t, store.ticked, "a tick of the sound line") }
	for len(store.hung) == 0 {
		ticks()
	}
	for range 20 {
		ticks()
	}
	close(store.open)
	stop()
	for {
		select {
		case <-store.ticked:
		case err := <-done:
			require.NoError(t, err)
			return
		}
	}
}

// slowDirectory is a fake ticket service whose Exists does not return before it is released.
type slowDirectory struct {
	*directory

	asked   chan string
	release chan struct{}
}

func (d slowDirectory) Exists(_ context.Context, eventID string) error {
	d.asked <- eventID
	<-d.release
	return line.ErrEventUnknown
}

// A status request for an unknown line is answered at once, since its id may be made up. The ticket
// service is asked in the background.
func TestStatusOfUnknownLineDoesNotBlock(t *testing.T) {
	w := newTestEnv(t)
	events := slowDirectory{directory: w.tickets, asked: make(chan string, 1000), release: make(chan struct{})}
	r := w.replicaWith(w.store(), events)
	free := sync.OnceFunc(func() { close(events.release) })
	t.Cleanup(free)
	var reqs []line.PlaceRequest
	for i := range 100 {
		reqs = append(reqs, requests(w.event+"-"+strconv.Itoa(i), "u")...)
	}
	for _, a := range r.service.Status(t.Context(), reqs) {
		require.NoError(t, a.Err)
		require.Equal(t, line.StatusNone, a.Place.Status)
	}
	testkit.Receive(t, events.asked, "ticket is asked")
	require.LessOrEqual(t, len(events.asked), 7, "no more than 8 questions at once")
	free()
	testkit.Until(t, func() bool {
		return r.service.Status(t.Context(), reqs[:1])[0].Err != nil
	}, "the answer is known")
	require.ErrorIs(t, r.service.Status(t.Context(), reqs[:1])[0].Err, line.ErrEventUnknown)
}
