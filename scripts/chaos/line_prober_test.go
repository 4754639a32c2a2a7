package chaos_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/claims"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/scripts/platform"
)

const (
	probeEvery = 250 * time.Millisecond
	// readRounds is the number of rounds after which all tokens are tried on a read.
	readRounds = 20
	// expiredReads is the number of expired tokens that are then tried.
	expiredReads = 50
	probeTimeout = 2 * time.Second
	maxSlotItems = 1000 // per call of VerifySlots
)

// prober keeps every entry token that the crowd ever received, and tries how many are valid at the
// same time. Calls that ask the queue service must accept no more slots than the threshold. Reads,
// which gateways accept by the token alone, may include slots that ended within a token's life.
type prober struct {
	l         *lineRun
	event     string
	threshold *atomic.Int64
	http      *http.Client
	queues    []queuev1.QueueServiceClient
	reserves  int // tokens with which it tries to reserve in each round

	mu     sync.Mutex
	passes map[passKey]*pass
	losses atomic.Int64 // odd while Redis loses data

	lastActive map[string]bool // slots active in the last round; nil: it failed
	figures    probeFigures
	stop       func()
}

// probeFigures count what a prober has done and seen.
type probeFigures struct {
	tokens, rounds, failed   int
	active, reading          int // maximum numbers of slots
	reserved, refused        int
	reads, expired, pastSlot int // pastSlot: valid for reads although the slot has ended
}

// passKey identifies a slot in VerifySlots. After a loss of data a slot gets tokens of a new epoch.
type passKey struct {
	slot  string
	epoch int64
}

// pass has the tokens of one user and passKey.
type pass struct {
	passKey

	user, bearer, address string
	tokens                []token
	seen                  time.Time // when the slot was last known to be active
}

type token struct {
	text    string
	expires time.Time
}

// newest returns the token that expires last.
func (p pass) newest() token { return p.tokens[len(p.tokens)-1] }

// verdict is the queue service's answer about a pass.
type verdict int

const (
	unknown verdict = iota // the queue service cannot tell now, as during a recovery
	active
	ended
)

// probe starts a prober of the crowd's tokens, which runs until the test ends or stop is called.
func (l *lineRun) probe(c *lineCrowd, reserves int) *prober {
	l.t.Helper()
	p := &prober{l: l, event: l.event, threshold: l.threshold, http: pollingClient(reserves), reserves: reserves, passes: map[passKey]*pass{}}
	for i := range queueReplicas {
		p.queues = append(p.queues, queuev1.NewQueueServiceClient(l.Dial(platform.Gateway, platform.Queue, i)))
	}
	c.mu.Lock()
	c.onPass = p.add
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(probeEvery); ctx.Err() == nil; {
			p.round(ctx)
			select {
			case <-ctx.Done():
				tick.Stop()
			case <-tick.C:
			}
		}
	}()
	p.stop = func() {
		cancel()
		<-done
	}
	l.t.Cleanup(p.stop)
	return p
}

// add keeps the present token of a visitor.
func (p *prober) add(v *visitor) {
	p.keep(v, v.slot, v.entry)
}

func (p *prober) keep(v *visitor, e *claims.Entry, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := passKey{e.SlotID, e.Epoch}
	known := p.passes[key]
	if known == nil {
		known = &pass{passKey: key, user: v.user, bearer: v.bearer, address: v.address}
		p.passes[key] = known
	}
	known.tokens, known.seen = append(known.tokens, token{text, e.Expiry()}), time.Now()
	p.figures.tokens++
}

// lose runs a loss of data. Across it the prober judges no single token: a slot whose end was lost
// is valid again.
func (p *prober) lose(do func()) {
	p.losses.Add(1)
	do()
	p.losses.Add(1)
}

// violated fails the test.
func (p *prober) violated(format string, args ...any) {
	p.l.t.Errorf(p.event+": "+format, args...)
}

// split returns copies of all passes, divided by whether the newest token has expired.
func (p *prober) split(now time.Time) (good, expired []pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.passes {
		if k.newest().expires.After(now) {
			good = append(good, *k)
		} else {
			expired = append(expired, *k)
		}
	}
	return good, expired
}

// round verifies all good passes at once and tries some of their tokens.
func (p *prober) round(ctx context.Context) {
	losses := p.losses.Load()
	good, expired := p.split(time.Now())
	verdicts, err := p.verify(ctx, good)
	if ctx.Err() != nil {
		return
	}
	p.figures.rounds++
	if err != nil {
		p.figures.failed++
		p.lastActive, verdicts = nil, make([]verdict, len(good))
	} else {
		p.countActive(good, verdicts)
	}
	p.reserve(ctx, good, verdicts, losses)
	if p.figures.rounds%readRounds == 0 {
		p.read(ctx, good, verdicts, err == nil)
		p.readExpired(ctx, expired)
	}
}

// verify asks the queue service about all passes, at any replica that answers.
func (p *prober) verify(ctx context.Context, all []pass) ([]verdict, error) {
	var err error
	for i := range p.queues {
		var got []verdict
		queue := p.queues[(p.figures.rounds+i)%len(p.queues)]
		if got, err = p.verifyAt(ctx, queue, all); err == nil {
			return got, nil
		}
	}
	return nil, err
}

func (p *prober) verifyAt(ctx context.Context, queue queuev1.QueueServiceClient, all []pass) (out []verdict, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for chunk := range slices.Chunk(all, maxSlotItems) {
		items := make([]*queuev1.SlotItem, len(chunk))
		for i, k := range chunk {
			items[i] = &queuev1.SlotItem{EventId: p.event, UserId: k.user, SlotId: k.slot, Epoch: k.epoch}
		}
		got, err := queue.VerifySlots(ctx, &queuev1.VerifySlotsRequest{Items: items})
		if err != nil {
			return nil, err
		}
		for _, r := range got.GetResults() {
			switch {
			case r.GetActive():
				out = append(out, active)
			case r.GetProblem() != nil:
				out = append(out, unknown)
			default:
				out = append(out, ended)
			}
		}
	}
	return out, nil
}

// countActive compares the active slots with the threshold. A batch is not read at one instant, so
// that a slot and its successor may both seem active. A slot that is active in two successive
// rounds was active in between.
func (p *prober) countActive(good []pass, verdicts []verdict) {
	now, slots, twice := time.Now(), map[string]bool{}, 0
	for i, k := range good {
		if verdicts[i] == active && !slots[k.slot] {
			slots[k.slot] = true
			if p.lastActive[k.slot] {
				twice++
			}
		}
	}
	p.mu.Lock()
	for i, k := range good {
		if slots[k.slot] {
			good[i].seen, p.passes[k.passKey].seen = now, now
		}
	}
	p.mu.Unlock()
	p.figures.active = max(p.figures.active, len(slots))
	if limit := p.threshold.Load(); int64(twice) > limit {
		p.violated("%d slots are active at once, the threshold is %d", twice, limit)
	}
	p.lastActive = slots
}

// reserve tries to reserve a seat with random tokens. It must fail if the slot had ended before.
func (p *prober) reserve(ctx context.Context, good []pass, verdicts []verdict, losses int64) {
	var work sync.WaitGroup
	n := min(p.reserves, len(good))
	passed := make([]bool, n)
	picks := make([]int, n)
	for i := range picks {
		picks[i] = p.l.below(len(good))
		work.Go(func() { passed[i] = p.tryReserve(ctx, good[picks[i]]) })
	}
	work.Wait()
	for i, at := range picks {
		if !passed[i] {
			p.figures.refused++
			continue
		}
		p.figures.reserved++
		if verdicts[at] == ended && losses%2 == 0 && p.losses.Load() == losses {
			p.violated("a reservation passed with the slot %s, which had ended", good[at].slot)
		}
	}
}

func (p *prober) tryReserve(ctx context.Context, k pass) bool {
	body := fmt.Sprintf(`{"eventId":%q,"seatIds":["A-1-1"]}`, p.event)
	status, code := p.try(ctx, http.MethodPost, "/api/v1/seats/reserve", body, k, k.newest())
	switch status {
	case http.StatusCreated, http.StatusConflict:
		return true
	case http.StatusForbidden, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests, 0:
		return false
	default:
		p.violated("a reservation was answered %d %s", status, code)
		return false
	}
}

// read loads the seats with each good token. Each slot for which this works must be active, or have
// ended within the life of a token.
func (p *prober) read(ctx context.Context, good []pass, verdicts []verdict, verified bool) {
	began := time.Now()
	reads := p.canRead(ctx, good)
	slots, recentlyEnded := map[string]bool{}, map[string]bool{}
	for i, k := range good {
		if reads[i] {
			slots[k.slot] = true
		}
		if verdicts[i] != active && k.seen.After(began.Add(-claims.EntryLife)) {
			recentlyEnded[k.slot] = true
		}
	}
	p.figures.reads += len(good)
	p.figures.reading = max(p.figures.reading, len(slots))
	p.figures.pastSlot = max(p.figures.pastSlot, len(recentlyEnded))
	if limit := int(p.threshold.Load()) + len(recentlyEnded); verified && len(slots) > limit {
		p.violated("%d slots can read, at most %d may: %d have ended within a minute", len(slots), limit, len(recentlyEnded))
	}
}

// readExpired requires that expired tokens are refused.
func (p *prober) readExpired(ctx context.Context, expired []pass) {
	var some []pass
	for range min(expiredReads, len(expired)) {
		some = append(some, expired[p.l.below(len(expired))])
	}
	for i, can := range p.canRead(ctx, some) {
		if can {
			p.violated("a read passed with a token of %s that expired at %v", some[i].user, some[i].newest().expires)
		}
	}
	p.figures.expired += len(some)
}

// readers is the number of concurrent reads.
const readers = 8

func (p *prober) canRead(ctx context.Context, all []pass) []bool {
	can := make([]bool, len(all))
	var work sync.WaitGroup
	for worker := range readers {
		work.Go(func() {
			for i := worker; i < len(all); i += readers {
				status, _ := p.try(ctx, http.MethodGet, "/api/v1/seats/"+p.event, "", all[i], all[i].newest())
				can[i] = status == http.StatusOK
			}
		})
	}
	work.Wait()
	return can
}

// try makes a call with a token at a random gateway. status is 0 if there is no answer.
func (p *prober) try(ctx context.Context, method, path, body string, k pass, with token) (status int, text string) {
	base := "http://" + p.l.Service(platform.Gateway).Addr(p.l.below(lineGateways))
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header = http.Header{
		"Authorization": {"Bearer " + k.bearer}, "X-Forwarded-For": {k.address}, "Accept": {"application/json"},
		"X-Queue-Entry-Token": {with.text},
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// requireFound requires that the prober has seen a full line and refused tokens, without which it
// proves nothing.
func (p *prober) requireFound(active int) {
	p.l.t.Helper()
	p.stop()
	f := p.figures
	p.l.t.Logf("%s: probed %d tokens in %d rounds, %d without an answer; at most %d slots active, %d able to read while %d had ended within a minute; "+
		"%d reservations passed, %d did not; %d reads, %d with expired tokens", p.event, f.tokens, f.rounds, f.failed, f.active, f.reading, f.pastSlot,
		f.reserved, f.refused, f.reads, f.expired)
	if f.active < active || f.reserved == 0 || f.refused == 0 {
		p.violated("the prober has not seen %d slots, or no reservation or refusal", active)
	}
}
