package promo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/internal/fetch"
)

// atOnce limits the concurrent applications in a burst, signingIn the concurrent logins before it.
const atOnce, signingIn = 512, 32

// burst is a group of users who all apply to one promotion at the same time, with their answers.
type burst struct {
	name  string
	event string
	users []*crowd.Session

	mu       sync.Mutex // guards the answers while users apply
	receipts []string
}

func newBurst(name string, n int) *burst {
	return &burst{name: name, users: make([]*crowd.Session, n)}
}

// signIn signs all users in before the burst, so that they can apply at the same time.
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
	soldOut            bool // it was refused since no place is left; there may be no stored request
}

// applyAs sends the application of the i-th user. Some users send it twice at the same time; both
// answers must contain the id of the same request.
func (b *burst) applyAs(ctx context.Context, i int, tally *demo.Tally) (outcome string) {
	user := b.users[i]
	if i%demo.TwiceEvery != 0 {
		a, err := b.send(ctx, user)
		return b.recordAnswers("applied", err, a)
	}
	first, second, err := demo.SendTwice(user, func(s *crowd.Session) (application, error) { return b.send(ctx, s) })
	if err == nil && first.RequestID != second.RequestID && !first.soldOut && !second.soldOut {
		tally.AddViolation(b.name+": applicant %d applied twice and has the requests %s and %s", i, first.RequestID, second.RequestID)
	}
	return b.recordAnswers("applied twice", err, first, second)
}

// recordAnswers keeps the receipts of a user's applications, and returns how the visit ended.
func (b *burst) recordAnswers(outcome string, err error, all ...application) string {
	if err != nil {
		return "error: " + err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range all {
		if a.soldOut {
			outcome = "sold out"
		}
		if a.Receipt != "" {
			b.receipts = append(b.receipts, a.Receipt)
		}
	}
	return outcome
}

// send sends an application until it is accepted. This is safe: each answer has the id of the same
// request.
func (b *burst) send(ctx context.Context, user *crowd.Session) (a application, err error) {
	err = demo.PostUntilDone(ctx, user, crowd.StepApply, "/api/v1/promotions/"+b.event+"/requests", &a)
	var refused *demo.RefusedError
	if errors.As(err, &refused) && refused.Code == "SOLD_OUT" {
		return application{soldOut: true}, nil
	}
	return a, err
}

func (r *run) firstComeTerms() map[string]any {
	now := time.Now().UTC()
	return map[string]any{
		"title": "Demo first come", "eventType": "FIRST_COME", "capacityTotal": r.cfg.FirstCome, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour),
	}
}

// lotteryTerms returns the terms of a lottery that accepts applications during window, and that the
// randomness of the sandbox's beacon decides.
func (r *run) lotteryTerms(ctx context.Context, window time.Duration) (terms map[string]any, cutoff time.Time, err error) {
	chain, err := readChain(ctx, r.wiring.BeaconURL())
	if err != nil {
		return nil, cutoff, err
	}
	now := time.Now().UTC()
	cutoff = now.Add(window).Truncate(time.Second)
	return map[string]any{
		"title": "Demo lottery", "eventType": "LOTTERY", "capacityTotal": r.cfg.Lottery, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": cutoff, "lotteryCutoffAt": cutoff, "announcedAt": cutoff.Add(r.cfg.Delay + lead),
		"beacon": map[string]any{
			"scheme": chain.Scheme, "chainHash": chain.ChainHash, "publicKey": chain.PublicKey, "genesis": chain.Genesis,
			"periodSeconds": chain.Period, "groupHash": chain.GroupHash, "beaconId": chain.BeaconID, "delaySeconds": int64(r.cfg.Delay / time.Second),
		},
	}, cutoff, nil
}

// readChain reads, from the beacon at url, the chain's public key, period and start.
func readChain(ctx context.Context, url string) (chain beacon.Chain, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var info beacon.Info
	raw, err := fetch.Get(ctx, url+"/info")
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil {
		return chain, fmt.Errorf("the sandbox's beacon: %w", err)
	}
	return info.Chain(), nil
}

// createPromotion creates a promotion by the operators' API and returns its id.
func (r *run) createPromotion(ctx context.Context, terms map[string]any) (event string, err error) {
	return demo.CreateOffer(ctx, r.operator, crowd.StepPromotion, "/api/v1/admin/promotions", terms)
}

// sampleEvery is how often the demo reads the figures of a burst.
const sampleEvery = 500 * time.Millisecond

// observedDraw is what the demo has seen of the lottery's draw before the results.
type observedDraw struct {
	announced time.Time
	phase     fairdraw.Phase
	// earlier is the first public document with the root of the entries: the root existed then.
	earlier *fairdraw.Document
}

// runBurst has all users of a burst apply at the same time. It waits until the requests have
// results or, for a lottery, whose draw is later, until they are accepted.
func (r *run) runBurst(ctx context.Context, b *burst) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.RunVisits(ctx, len(b.users), atOnce, 0, 0, func(ctx context.Context, i int) string {
			return b.name + ": " + b.applyAs(ctx, i, &r.Tally)
		})
	}()
	defer func() { <-gone }()
	return demo.Watch(ctx, sampleEvery, r.cfg.Limit, func(ctx context.Context) (demo.RunState, error) {
		unsettled, err := r.takeSample(ctx)
		switch {
		case err != nil || !demo.Closed(gone):
			return demo.Acting, err
		case unsettled > 0 && b != r.lottery:
			return demo.Settling, nil
		default:
			return demo.Settled, nil
		}
	}, func() { r.Say("requests are still unsettled after %s (LIMIT)", r.cfg.Limit) })
}

// takeSample reads the operators' figures, and returns how many requests have no result yet.
func (r *run) takeSample(ctx context.Context) (unsettled int64, err error) {
	var accepted int64
	for _, b := range []*burst{r.first, r.lottery} {
		if b.event == "" {
			continue
		}
		answer, err := r.operator.Call(ctx, crowd.StepProgress, http.MethodGet, "/api/v1/admin/promotions/"+b.event+"/summary", nil, nil)
		if err != nil {
			return 0, fmt.Errorf("sample: %w", err)
		}
		var figures struct{ Accepted, Unsettled int64 }
		if !answer.OK() { // the platform is overloaded; the next sample may succeed
			return 1, nil
		}
		if err := json.Unmarshal(answer.Body, &figures); err != nil {
			return 0, fmt.Errorf("sample: %w", err)
		}
		accepted += figures.Accepted
		unsettled += figures.Unsettled
	}
	r.AddSample(demo.NamedNumber{Name: "answered", N: r.Tally.Gone.Load()}, demo.NamedNumber{Name: "accepted", N: accepted},
		demo.NamedNumber{Name: "settled", N: accepted - unsettled})
	return unsettled, nil
}

// awaitDraw polls until every request has its result, and reads the draw's public document.
func (r *run) awaitDraw(ctx context.Context) error {
	limit := time.Until(r.draw.announced.Add(r.cfg.Limit))
	return demo.Watch(ctx, sampleEvery, limit, func(ctx context.Context) (demo.RunState, error) {
		unsettled, err := r.takeSample(ctx)
		if err != nil {
			return demo.Settling, err
		}
		doc, err := r.readDrawDocument(ctx)
		if err != nil {
			return demo.Settling, nil //nolint:nilerr // the next call reads it again
		}
		if doc.Phase != r.draw.phase {
			r.draw.phase = doc.Phase
			r.Say("the draw is %s", doc.Phase)
		}
		if r.draw.earlier == nil && doc.Statement != nil {
			doc.SavedAt = time.Now().UnixMilli()
			r.draw.earlier = doc
		}
		if doc.Phase == fairdraw.PhaseSettled && unsettled == 0 {
			return demo.Settled, nil
		}
		return demo.Settling, nil
	}, func() { r.Say("the lottery is not settled %s after its announcement (LIMIT)", r.cfg.Limit) })
}

// readDrawDocument reads the public document of the lottery's draw.
func (r *run) readDrawDocument(ctx context.Context) (*fairdraw.Document, error) {
	body, err := r.readPublic(ctx, "/api/v1/draws/"+r.lottery.event)
	if err != nil {
		return nil, err
	}
	return fairdraw.ParseDocument(body)
}

func (r *run) readPublic(ctx context.Context, path string) ([]byte, error) {
	answer, err := r.operator.Call(ctx, crowd.StepDocument, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if !answer.OK() {
		return nil, fmt.Errorf("%s: %d %s", path, answer.Status, answer.Problem().Code)
	}
	return answer.Body, nil
}
