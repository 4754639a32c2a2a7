package promo

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// atOnce bounds the connections of a burst, and signingIn those of its preparation.
const atOnce, signingIn = 512, 32

// burst is a crowd that applies to one promotion, and what it was answered.
type burst struct {
	name  string
	event string
	users []*crowd.Session

	mu       sync.Mutex // while they apply
	receipts []string
}

func newBurst(name string, n int) *burst {
	return &burst{name: name, users: make([]*crowd.Session, n)}
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

// application is the response to an application.
type application struct {
	RequestID, Receipt string
	Duplicate          bool
}

// applyAs applies for one user, for some twice at once: both must get the same request.
func (b *burst) applyAs(ctx context.Context, i int, tally *demo.Tally) (outcome string) {
	user := b.users[i]
	if i%demo.TwiceEvery != 0 {
		a, err := b.send(ctx, user)
		return b.answered("applied", err, a)
	}
	first, second, err := demo.Twice(user, func(s *crowd.Session) (application, error) { return b.send(ctx, s) })
	if err == nil && first.RequestID != second.RequestID {
		tally.Violate(b.name+": applicant %d applied twice and has the requests %s and %s", i, first.RequestID, second.RequestID)
	}
	return b.answered("applied twice", err, first, second)
}

// answered keeps the receipts of a user's applications and says how they ended.
func (b *burst) answered(outcome string, err error, all ...application) string {
	if err != nil {
		return "error: " + err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range all {
		if a.Receipt != "" {
			b.receipts = append(b.receipts, a.Receipt)
		}
	}
	return outcome
}

// send sends one application until it has a response other than a failure: repeating it returns the
// same request.
func (b *burst) send(ctx context.Context, user *crowd.Session) (a application, err error) {
	err = demo.Insist(ctx, user, crowd.StepApply, "/api/v1/promotions/"+b.event+"/requests", &a)
	return a, err
}
