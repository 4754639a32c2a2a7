package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
)

// TwiceEvery means "one in n": one in so many members sends each request twice at the same time.
const TwiceEvery = 10

const (
	// attempts is the most requests of PostUntilDone. The pauses grow from firstPause to lastPause.
	attempts   = 40
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
)

// RefusedError is the last response to a request that did not succeed.
type RefusedError struct {
	Step   crowd.Step
	Status int
	Code   string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %d %s", e.Step, e.Status, e.Code) }

// PostUntilDone posts an empty body until a request succeeds, and decodes the response. The request
// must be safe to repeat. If it is refused, the error is a RefusedError.
func PostUntilDone(ctx context.Context, s *crowd.Session, step crowd.Step, path string, into any) error {
	var err error
	for n := range attempts {
		var answer *crowd.Answer
		answer, err = s.Call(ctx, step, http.MethodPost, path, map[string]any{}, nil)
		switch {
		case err == nil && answer.OK():
			return json.Unmarshal(answer.Body, into)
		case err == nil:
			err = &RefusedError{Step: step, Status: answer.Status, Code: answer.Problem().Code}
			if answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
				return err
			}
		}
		if !loop.Sleep(ctx, min(firstPause<<min(n, 8), lastPause)) {
			return ctx.Err()
		}
	}
	return err
}

// SendTwice calls send twice at the same time, for a browser and a copy of it (a second tab).
func SendTwice[A any](s *crowd.Session, send func(*crowd.Session) (A, error)) (first, second A, err error) {
	var secondErr error
	var wg sync.WaitGroup
	tab := s.Fork()
	wg.Go(func() { second, secondErr = send(tab) })
	first, err = send(s)
	wg.Wait()
	return first, second, errors.Join(err, secondErr)
}

// CreateOffer creates a campaign or a promotion by the operators' API and returns its id.
func CreateOffer(ctx context.Context, operator *crowd.Session, step crowd.Step, path string, terms map[string]any) (eventID string, err error) {
	answer, err := operator.Call(ctx, step, http.MethodPost, path, terms, map[string]string{"Idempotency-Key": uuid.NewString()})
	if err != nil {
		return "", err
	}
	var created struct{ EventID string }
	if err := json.Unmarshal(answer.Body, &created); err != nil || !answer.OK() || created.EventID == "" {
		return "", fmt.Errorf("create %s: %d %s", terms["title"], answer.Status, answer.Body)
	}
	return created.EventID, nil
}

// RunVisits calls visit once for each of n members, numbered from 0, for at most atOnce at a time.
// The seed spreads their starts over the time arrive. visit returns how it ended. RunVisits returns
// when all have ended or ctx ends.
func (s *Stage) RunVisits(ctx context.Context, n, atOnce int, arrive time.Duration, seed uint64, visit func(ctx context.Context, i int) string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var wg sync.WaitGroup
	inside := make(chan struct{}, atOnce)
	for i := range n {
		wait := time.Duration(rng.Int64N(int64(arrive) + 1))
		wg.Go(func() {
			if wait > 0 && !loop.Sleep(ctx, wait) {
				return
			}
			inside <- struct{}{}
			defer func() { <-inside }()
			s.Tally.End(visit(ctx, i))
		})
	}
	wg.Wait()
}

// Tally counts what the members of a demo saw. The zero value is ready for use.
type Tally struct {
	crowd.Endings

	mu         sync.Mutex
	violations []string
}

// AddViolation records a violation: answers to one member that contradict each other.
func (t *Tally) AddViolation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.violations = append(t.violations, fmt.Sprintf(format, args...))
}

func (t *Tally) Violations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.violations)
}
