package rewards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
)

// twiceEvery is the share of the members who click twice, at once.
const twiceEvery = 10

// atOnce bounds the members who use the platform at the same time: the demo shows payouts, not how
// a crowd is refused.
const atOnce = 64

// attempts bounds the requests of a member for one entry, after pauses that grow from firstPause to
// lastPause. Repeating a request is safe: it returns the same entry.
const (
	attempts   = 30
	firstPause = 500 * time.Millisecond
	lastPause  = 5 * time.Second
)

// tally counts what the members saw; the verdict does not depend on it, except for violations.
type tally struct {
	gone atomic.Int64

	mu         sync.Mutex
	outcomes   map[string]int
	violations []string
}

func (t *tally) end(outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcomes == nil {
		t.outcomes = map[string]int{}
	}
	t.outcomes[outcome]++
	t.gone.Add(1)
}

func (t *tally) violate(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.violations = append(t.violations, fmt.Sprintf(format, args...))
}

func (t *tally) result() (outcomes map[string]int, violations []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.outcomes), append([]string(nil), t.violations...)
}

// visitAll runs all members; it returns when the last has gone or ctx ends.
func (d *Demo) visitAll(ctx context.Context) {
	rng := rand.New(rand.NewPCG(d.opts.Seed, 1))
	var wg sync.WaitGroup
	inside := make(chan struct{}, atOnce)
	for i := range d.opts.Members {
		wait := time.Duration(rng.Int64N(int64(d.opts.Arrive) + 1))
		wg.Go(func() {
			if !loop.Sleep(ctx, wait) {
				return
			}
			inside <- struct{}{}
			defer func() { <-inside }()
			d.tally.end(d.visit(ctx, i))
		})
	}
	wg.Wait()
}

// visit signs a member in, who attends, draws and looks at the rewards.
func (d *Demo) visit(ctx context.Context, i int) (outcome string) {
	s, name := d.on.API.NewSession(), fmt.Sprintf("member-%05d", i)
	if err := s.DevLogin(ctx, name); err != nil {
		return "error: " + err.Error()
	}
	twice := i%twiceEvery == 0
	if _, err := d.enter(ctx, s, name, crowd.StepAttend, "/api/v1/rewards/"+d.campaign.attendance+"/attendance", twice); err != nil {
		return "error: " + err.Error()
	}
	e, err := d.enter(ctx, s, name, crowd.StepDraw, "/api/v1/rewards/"+d.campaign.random+"/draw", twice)
	if err != nil {
		return "error: " + err.Error()
	}
	if _, err := s.Call(ctx, crowd.StepRewards, http.MethodGet, "/api/v1/my/rewards", nil, nil); err != nil {
		return "error: " + err.Error()
	}
	if e.Prize == nil || e.Prize.Kind == "NONE" {
		return "no prize"
	}
	return "prize: " + e.Prize.Name
}

// entry is the response to an attendance or a draw.
type entry struct {
	EntryID string
	Prize   *struct{ Name, Kind string }
}

// enter attends or draws, some twice at once. Both clicks must return the same entry.
func (d *Demo) enter(ctx context.Context, s *crowd.Session, name string, step crowd.Step, path string, twice bool) (entry, error) {
	if !twice {
		return click(ctx, s, step, path)
	}
	var second entry
	var secondErr error
	var wg sync.WaitGroup
	other := s.Fork()
	wg.Go(func() { second, secondErr = click(ctx, other, step, path) })
	first, err := click(ctx, s, step, path)
	wg.Wait()
	if err := errors.Join(err, secondErr); err != nil {
		return first, err
	}
	if first.EntryID != second.EntryID {
		d.tally.violate("%s clicked %s twice and has the entries %s and %s", name, step, first.EntryID, second.EntryID)
	}
	return first, nil
}

// click sends one request until it has a response other than a failure.
func click(ctx context.Context, s *crowd.Session, step crowd.Step, path string) (e entry, err error) {
	for n := range attempts {
		var ans *crowd.Answer
		ans, err = s.Call(ctx, step, http.MethodPost, path, map[string]any{}, nil)
		switch {
		case err == nil && ans.OK():
			return e, json.Unmarshal(ans.Body, &e)
		case err == nil:
			err = fmt.Errorf("%s: %d %s", step, ans.Status, ans.Problem().Code)
			if ans.Status < http.StatusInternalServerError && ans.Status != http.StatusTooManyRequests {
				return e, err
			}
		}
		if !loop.Sleep(ctx, min(firstPause<<min(n, 8), lastPause)) {
			return e, ctx.Err()
		}
	}
	return e, err
}
