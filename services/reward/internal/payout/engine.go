package payout

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/loop"
)

// Provider pays rewards of one kind. Every call ends by its context's deadline.
type Provider interface {
	// Pay sends the payment under the allocation's KeyToSend.
	Pay(ctx context.Context, a Allocation) CallResult
	// Lookup returns Paid, Absent or Unknown.
	Lookup(ctx context.Context, key string) CallResult
	// Void makes a later payment under the key impossible. It returns Voided, or Paid if the provider
	// has paid before. Absent: the provider cannot void keys. Unknown: the key may be void.
	Void(ctx context.Context, key string) CallResult
	// CallsAllowed reports how many calls may be sent now; 0 while the provider fails.
	CallsAllowed() int
}

// ClaimRef identifies a claim: the allocation's id, and its version since the claim.
type ClaimRef struct{ ID, Version int64 }

// Store keeps allocations.
type Store interface {
	// Claim claims up to n due allocations of the kind, each under a new version and lease.
	Claim(ctx context.Context, kind Kind, n int, p Policy) ([]ClaimedAllocation, error)
	// Renew extends the leases of claims that have not ended.
	Renew(ctx context.Context, claims []ClaimRef, p Policy) error
	// Settle locks the allocation, applies Decide to it, and writes the result with its Kafka event.
	Settle(ctx context.Context, c EndedCall, p Policy) (applied bool, err error)
	// Release makes allocations due again that were claimed but for which nothing was sent.
	Release(ctx context.Context, claims []ClaimRef) error
	// HoldAbandoned holds, for an operator, allocations during which MaxRecoveries workers have died.
	HoldAbandoned(ctx context.Context, kind Kind, p Policy) (held int, err error)
}

const (
	pollEvery = time.Second
	// settleRetry is the pause after an outcome could not be written.
	settleRetry = 200 * time.Millisecond
	// releaseTimeout is the time limit for the release of unsent claims at shutdown.
	releaseTimeout = 2 * time.Second
	// claimMax is the most rows of one claim. The limit keeps the time short for which it holds locks.
	claimMax = 100
	// gatherFor is how long the engine waits for more calls to end before it claims rows: claiming
	// many rows costs little more than claiming one.
	gatherFor = 10 * time.Millisecond
)

// Engine pays the due allocations of one kind. Any number of replicas may run one.
type Engine struct {
	kind     Kind
	store    Store
	provider Provider
	policy   Policy
	slots    chan struct{} // has one element per call to the provider that is under way
	wake     chan struct{}
	log      *slog.Logger
	work     sync.WaitGroup
	// abandonedCheck is when abandoned allocations were last looked for; used by Run only.
	abandonedCheck time.Time

	mu        sync.Mutex
	unsettled map[int64]int64 // version of each claim whose outcome is not written
}

// NewEngine makes an engine with a number of slots for concurrent calls.
func NewEngine(kind Kind, store Store, provider Provider, policy Policy, slots int, log *slog.Logger) *Engine {
	abandonedTotal.WithLabelValues(string(kind)) // starts at 0, so that the first one is an increase
	return &Engine{
		kind: kind, store: store, provider: provider, policy: policy, log: log.With("kind", string(kind)),
		slots: make(chan struct{}, slots), wake: make(chan struct{}, 1), unsettled: make(map[int64]int64),
	}
}

// Wake makes the engine look for due allocations at once.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run pays until ctx ends, and returns when the calls under way have ended.
func (e *Engine) Run(ctx context.Context) error {
	renewals, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var renewing sync.WaitGroup
	renewing.Go(func() { _ = loop.Tick(renewals, e.policy.Lease/3, e.renewLeases) })
	for ctx.Err() == nil {
		if more := e.payDue(ctx); more {
			e.awaitSlots(ctx)
		} else {
			loop.SleepOrWake(ctx, pollEvery, e.wake)
		}
	}
	e.work.Wait()
	stop()
	renewing.Wait()
	return nil
}

// payDue claims as many due allocations as there are slots and starts their calls; more reports
// that further allocations may be due.
func (e *Engine) payDue(ctx context.Context) (more bool) {
	free := e.freeSlots()
	n := min(free, e.provider.CallsAllowed(), claimMax)
	if n <= 0 {
		return free == 0
	}
	if !e.holdAbandoned(ctx) {
		return false
	}
	// The deadline is computed before the claim, since the lease begins during the claim.
	deadline := time.Now().Add(e.policy.CallTimeout)
	claims, err := e.claim(ctx, n, deadline)
	if err != nil {
		e.warn(ctx, "due payouts not claimed", err)
		return false
	}
	if len(claims) > 0 {
		failpoint.Hit("payout.after_claim")
	}
	if ctx.Err() != nil {
		e.releaseUnsent(ctx, claims)
		return false
	}
	for _, c := range claims {
		e.startCall(ctx, c, deadline)
	}
	return len(claims) == n
}

// claim is not interrupted at shutdown: claims that were committed but not returned would wait for
// the end of their lease, and count as calls of unknown outcome.
func (e *Engine) claim(ctx context.Context, n int, deadline time.Time) ([]ClaimedAllocation, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return e.store.Claim(ctx, e.kind, n, e.policy)
}

// holdAbandoned looks, once per pollEvery, for allocations during which several workers have died.
func (e *Engine) holdAbandoned(ctx context.Context) (ok bool) {
	if time.Since(e.abandonedCheck) < pollEvery {
		return true
	}
	held, err := e.store.HoldAbandoned(ctx, e.kind, e.policy)
	if err != nil {
		e.warn(ctx, "abandoned payouts not stopped", err)
		return false
	}
	e.abandonedCheck = time.Now()
	if held > 0 {
		abandonedTotal.WithLabelValues(string(e.kind)).Add(float64(held))
		e.log.ErrorContext(ctx, "payouts stopped: several workers died with them", "count", held)
	}
	return true
}

func (e *Engine) freeSlots() int { return cap(e.slots) - len(e.slots) }

// awaitSlots waits for a free slot, and then up to gatherFor for as many as one claim can use.
func (e *Engine) awaitSlots(ctx context.Context) {
	for ctx.Err() == nil && e.freeSlots() == 0 {
		loop.SleepOrWake(ctx, pollEvery, e.wake)
	}
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	for e.freeSlots() < min(cap(e.slots), claimMax) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-e.wake: // a slot is free
		}
	}
}

func (e *Engine) startCall(ctx context.Context, c ClaimedAllocation, deadline time.Time) {
	e.slots <- struct{}{} // does not wait: only Run fills slots, and it counted the free ones
	e.mu.Lock()
	e.unsettled[c.ID] = c.Version
	e.mu.Unlock()
	e.work.Go(func() {
		defer func() {
			e.mu.Lock()
			delete(e.unsettled, c.ID)
			e.mu.Unlock()
			<-e.slots
			e.Wake()
		}()
		e.callAndSettle(ctx, c, deadline)
	})
}

// callAndSettle calls the provider and writes the outcome. After the deadline it sends nothing,
// since the lease may have ended and another worker may have the allocation.
func (e *Engine) callAndSettle(ctx context.Context, c ClaimedAllocation, deadline time.Time) {
	// A call that has begun is finished at shutdown, within its deadline.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if ctx.Err() != nil {
		lateTotal.WithLabelValues(string(e.kind)).Inc()
		return
	}
	r := e.payOrAsk(ctx, c, deadline)
	failpoint.Hit("payout.before_settle")
	e.settle(context.WithoutCancel(ctx), EndedCall{ID: c.ID, Version: c.Version, Action: c.Action, Result: r})
}

// payOrAsk sends the payment, or asks whether an earlier call has paid.
func (e *Engine) payOrAsk(ctx context.Context, c ClaimedAllocation, deadline time.Time) (r CallResult) {
	defer func() {
		if p := recover(); p != nil {
			e.log.ErrorContext(ctx, "panic in a payout", "allocation_id", c.ID, "error", errs.FromPanic(p))
			r = CallResult{Outcome: Unknown, Message: "internal error"}
		}
	}()
	if c.Action == Pay {
		return e.provider.Pay(ctx, c.Allocation)
	}
	return e.askWhetherPaid(ctx, c, deadline)
}

// askWhetherPaid looks up whether an earlier call has paid. If none has, it voids the key, so that
// the answer is final. The void has a CallTimeout of its own. Once a void was sent, the answer to
// the look-up counts only if the provider has no voids: otherwise the key may be void, or paid
// after the look-up.
func (e *Engine) askWhetherPaid(ctx context.Context, c ClaimedAllocation, deadline time.Time) CallResult {
	asked := time.Now()
	r := e.provider.Lookup(ctx, c.KeyToSend())
	if r.Outcome == Absent {
		ctx, cancel := e.voidContext(ctx, deadline)
		defer cancel()
		if v := e.provider.Void(ctx, c.KeyToSend()); v.Outcome != Absent {
			r = v
		}
	}
	r.Asked = asked
	return r
}

// voidContext returns the context of the call that voids a key. It ends after one CallTimeout, and
// at most one CallTimeout after the look-up's deadline: this process may have been suspended since.
func (e *Engine) voidContext(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	end := time.Now().Add(e.policy.CallTimeout)
	if last := deadline.Add(e.policy.CallTimeout); last.Before(end) {
		end = last
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// settle writes an outcome. If that fails, it tries again for the time of one lease. After that
// another worker takes the allocation over and asks the provider.
func (e *Engine) settle(ctx context.Context, c EndedCall) {
	ctx, cancel := context.WithTimeout(ctx, e.policy.Lease)
	defer cancel()
	for {
		applied, err := e.store.Settle(ctx, c, e.policy)
		if err == nil {
			e.countCall(ctx, c, applied)
			return
		}
		e.warn(ctx, "outcome of a payout not written, trying again", err, "allocation_id", c.ID)
		if !loop.Sleep(ctx, settleRetry) {
			return
		}
	}
}

func (e *Engine) countCall(ctx context.Context, c EndedCall, applied bool) {
	callsTotal.WithLabelValues(string(e.kind), string(c.Action), string(c.Result.Outcome)).Inc()
	if !applied {
		lateTotal.WithLabelValues(string(e.kind)).Inc()
		e.log.InfoContext(ctx, "late outcome of a payout ignored", "allocation_id", c.ID, "outcome", string(c.Result.Outcome))
	}
}

// releaseUnsent gives up the claims for which nothing was sent to the provider.
func (e *Engine) releaseUnsent(ctx context.Context, claims []ClaimedAllocation) {
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	held := make([]ClaimRef, len(claims))
	for i, c := range claims {
		held[i] = ClaimRef{ID: c.ID, Version: c.Version}
	}
	if err := e.store.Release(ctx, held); err != nil {
		e.warn(ctx, "unsent payouts not released; their leases will end", err, "count", len(held))
	}
}

// renewLeases extends the leases of all claims whose outcome is not written yet.
func (e *Engine) renewLeases(ctx context.Context) {
	e.mu.Lock()
	held := make([]ClaimRef, 0, len(e.unsettled))
	for id, version := range e.unsettled {
		held = append(held, ClaimRef{ID: id, Version: version})
	}
	e.mu.Unlock()
	if len(held) == 0 {
		return
	}
	if err := e.store.Renew(ctx, held, e.policy); err != nil {
		e.warn(ctx, "leases not renewed", err)
	}
}

func (e *Engine) warn(ctx context.Context, msg string, err error, args ...any) {
	if ctx.Err() == nil {
		e.log.WarnContext(ctx, msg, append(args, "error", err)...) //nolint:sloglint // every caller passes a constant
	}
}
