package promo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
)

const (
	// twiceEvery is the share of the applicants who apply twice, at once.
	twiceEvery = 10
	// atOnce bounds the connections of a burst, and signingIn those of its preparation.
	atOnce, signingIn = 512, 32
	// attempts bounds the requests for one application, after pauses that grow from firstPause to
	// lastPause. Repeating is safe: it returns the same request.
	attempts   = 40
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
)

// burst is a crowd that applies to one promotion, and what it was answered.
type burst struct {
	name     string
	event    string
	users    []*crowd.Session
	answered atomic.Int64

	mu         sync.Mutex
	outcomes   map[string]int
	receipts   []string
	violations []string
}

func newBurst(name string, n int) *burst {
	return &burst{name: name, users: make([]*crowd.Session, n), outcomes: map[string]int{}}
}

// signIn prepares the crowd, so that all of it can apply at the same time.
func (b *burst) signIn(ctx context.Context, api *crowd.API) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(signingIn)
	for i := range b.users {
		group.Go(func() error {
			b.users[i] = api.NewSession()
			return b.users[i].DevLogin(ctx, fmt.Sprintf("applicant-%05d", i))
		})
	}
	return group.Wait()
}

// apply lets everybody apply at once, and returns when the last has an answer or ctx ends.
func (b *burst) apply(ctx context.Context) {
	var wg sync.WaitGroup
	connections := make(chan struct{}, atOnce)
	for i, user := range b.users {
		wg.Go(func() {
			connections <- struct{}{}
			defer func() { <-connections }()
			b.end(b.applyAs(ctx, i, user))
		})
	}
	wg.Wait()
}

func (b *burst) end(outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[b.name+": "+outcome]++
	b.answered.Add(1)
}

// application is the response to an application.
type application struct {
	RequestID, Receipt string
	Duplicate          bool
}

// applyAs applies for one user, for some twice at once: both must get the same request.
func (b *burst) applyAs(ctx context.Context, i int, user *crowd.Session) (outcome string) {
	var second application
	var secondErr error
	var wg sync.WaitGroup
	twice := i%twiceEvery == 0
	if twice {
		other := user.Fork()
		wg.Go(func() { second, secondErr = b.send(ctx, other) })
	}
	first, err := b.send(ctx, user)
	wg.Wait()
	if err := errors.Join(err, secondErr); err != nil {
		return "error: " + err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range []application{first, second} {
		if a.Receipt != "" {
			b.receipts = append(b.receipts, a.Receipt)
		}
	}
	switch {
	case !twice:
		return "applied"
	case first.RequestID != second.RequestID:
		b.violations = append(b.violations, fmt.Sprintf("applicant %d applied twice and has the requests %s and %s", i, first.RequestID, second.RequestID))
	}
	return "applied twice"
}

// send sends one application until it has a response other than a failure.
func (b *burst) send(ctx context.Context, user *crowd.Session) (a application, err error) {
	for n := range attempts {
		var answer *crowd.Answer
		answer, err = user.Call(ctx, crowd.StepApply, http.MethodPost, "/api/v1/promotions/"+b.event+"/requests", map[string]any{}, nil)
		switch {
		case err == nil && answer.OK():
			return a, json.Unmarshal(answer.Body, &a)
		case err == nil:
			err = fmt.Errorf("%d %s", answer.Status, answer.Problem().Code)
			if answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
				return a, err
			}
		}
		if !loop.Sleep(ctx, min(firstPause<<min(n, 8), lastPause)) {
			return a, ctx.Err()
		}
	}
	return a, err
}
