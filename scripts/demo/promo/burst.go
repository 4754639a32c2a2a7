package promo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	name   string
	event  string
	cutoff time.Time // of a lottery: applications are refused from then on
	users  []*crowd.Session

	mu       sync.Mutex // guards the answers while users apply
	receipts []string
	late     []string // names of the users who applied after the cutoff only
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
			return b.users[i].DevLogin(ctx, userName(i))
		})
	}
	return group.Wait()
}

func userName(i int) string { return fmt.Sprintf("applicant-%05d", i) }

func (b *burst) names() []string {
	names := make([]string, len(b.users))
	for i := range names {
		names[i] = userName(i)
	}
	return names
}

// application is the response to an application.
type application struct {
	RequestID, Receipt string
	Duplicate          bool
	// refused says that the promotion was over: there may be no stored request.
	refused string
}

// The values of application.refused.
const (
	soldOut = "sold out" // no place is left
	tooLate = "too late" // the cutoff has passed
)

// applyAs sends the application of the i-th user. Some users send it twice at the same time; both
// answers must contain the id of the same request.
func (b *burst) applyAs(ctx context.Context, i int, tally *demo.Tally) (outcome string) {
	user := b.users[i]
	if i%demo.TwiceEvery != 0 {
		a, err := b.send(ctx, user)
		return b.recordAnswers(i, "applied", err, a)
	}
	first, second, err := demo.SendTwice(user, func(s *crowd.Session) (application, error) { return b.send(ctx, s) })
	if err == nil && first.RequestID != second.RequestID && first.refused == "" && second.refused == "" {
		tally.AddViolation(b.name+": applicant %d applied twice and has the requests %s and %s", i, first.RequestID, second.RequestID)
	}
	return b.recordAnswers(i, "applied twice", err, first, second)
}

// recordAnswers keeps the answers to a user's applications, and returns how the visit ended.
func (b *burst) recordAnswers(i int, outcome string, err error, all ...application) string {
	if err != nil {
		return "error: " + err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	late := 0
	for _, a := range all {
		if a.refused != "" {
			outcome = a.refused
		}
		if a.refused == tooLate {
			late++
		}
		if a.Receipt != "" {
			b.receipts = append(b.receipts, a.Receipt)
		}
	}
	if late == len(all) {
		b.late = append(b.late, userName(i))
	}
	return outcome
}

// send sends an application until it is accepted, or the promotion is over. This is safe: each
// answer has the id of the same request.
func (b *burst) send(ctx context.Context, user *crowd.Session) (a application, err error) {
	err = demo.PostUntilDone(ctx, user, crowd.StepApply, "/api/v1/promotions/"+b.event+"/requests", &a)
	var refused *demo.RefusedError
	switch {
	case !errors.As(err, &refused):
		return a, err
	case refused.Code == "SOLD_OUT":
		return application{refused: soldOut}, nil
	case refused.Code == "NOT_OPEN" && !b.cutoff.IsZero() && !time.Now().Before(b.cutoff):
		return application{refused: tooLate}, nil
	default:
		return a, err
	}
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
	due       time.Time // when the result is due: later than announced if the root came late
	phase     fairdraw.Phase
	// earlier is the first public document with the root of the entries: the root existed then.
	earlier *fairdraw.Document
}

// apply has all users of a burst apply at the same time, and returns when all have been answered.
func (r *run) apply(ctx context.Context, b *burst) {
	r.RunVisits(ctx, len(b.users), atOnce, 0, 0, func(ctx context.Context, i int) string {
		return b.name + ": " + b.applyAs(ctx, i, &r.Tally)
	})
}

// watch takes samples until all applicants have gone, the result of the lottery is due and
// every request has its result.
func (r *run) watch(ctx context.Context, gone <-chan struct{}) error {
	unsettled := int64(2 * r.cfg.Applicants)
	return demo.Watch(ctx, sampleEvery, r.cfg.Limit, func(ctx context.Context) (demo.RunState, int64, error) {
		allGone := demo.Closed(gone) // known before the sample, which then has the last application
		n, read, err := r.takeSample(ctx)
		if err != nil {
			return demo.Acting, 0, err
		}
		if read {
			unsettled = n
		}
		r.watchDraw(ctx)
		switch {
		case !allGone || time.Now().Before(r.draw.due):
			return demo.Acting, 0, nil
		case !read || unsettled > 0 || r.draw.phase != fairdraw.PhaseSettled:
			return demo.Settling, unsettled + r.draw.phasesLeft(), nil
		default:
			return demo.Settled, 0, nil
		}
	}, func() { r.Say("nothing was settled for %s (LIMIT), the draw is %s", r.cfg.Limit, r.draw.phase) })
}

// takeSample reads the operators' figures, and returns how many requests have no result yet, also
// those that are not stored: ingest records the applications after the last place later. read is
// false if the platform is overloaded; the next sample may succeed.
func (r *run) takeSample(ctx context.Context) (unsettled int64, read bool, err error) {
	var accepted int64
	for _, b := range []*burst{r.first, r.lottery} {
		answer, err := r.operator.Call(ctx, crowd.StepProgress, http.MethodGet, "/api/v1/admin/promotions/"+b.event+"/summary", nil, nil)
		if err != nil {
			return 0, false, fmt.Errorf("sample: %w", err)
		}
		var figures struct{ Accepted, Unsettled int64 }
		if !answer.OK() {
			return 0, false, nil
		}
		if err := json.Unmarshal(answer.Body, &figures); err != nil {
			return 0, false, fmt.Errorf("sample: %w", err)
		}
		accepted += figures.Accepted
		unsettled += figures.Unsettled
	}
	r.AddSample(demo.NamedNumber{Name: "answered", N: r.Tally.Gone.Load()}, demo.NamedNumber{Name: "accepted", N: accepted},
		demo.NamedNumber{Name: "settled", N: accepted - unsettled})
	unstored := int64(2*r.cfg.Applicants-r.lottery.countLate()) - accepted
	return unsettled + max(0, unstored), true, nil
}

// countLate returns how many users were refused after the cutoff.
func (b *burst) countLate() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.late)
}

// phasesLeft returns the number of phases of the draw that are still to come.
func (d *observedDraw) phasesLeft() int64 {
	phases := []fairdraw.Phase{fairdraw.PhaseSettled, fairdraw.PhaseDrawn, fairdraw.PhaseRoot, fairdraw.PhaseClosed}
	if i := slices.Index(phases, d.phase); i >= 0 {
		return int64(i)
	}
	return int64(len(phases))
}

// watchDraw reads the draw's public document.
func (r *run) watchDraw(ctx context.Context) {
	doc, err := r.readDrawDocument(ctx)
	if err != nil {
		return // the next call reads it again
	}
	if doc.Phase != r.draw.phase {
		r.draw.phase = doc.Phase
		r.Say("the draw is %s", doc.Phase)
	}
	if r.draw.earlier == nil && doc.Statement != nil {
		doc.SavedAt = time.Now().UnixMilli()
		r.draw.earlier = doc
		r.draw.readDue(doc)
		r.Say("the result is due in %.0f s", time.Until(r.draw.due).Seconds())
	}
}

// readDue reads when the result is due: the statement names a later round of the beacon if the root
// came too late for the planned one. The audit finds texts that cannot be read.
func (d *observedDraw) readDue(doc *fairdraw.Document) {
	c, _, malformed := fairdraw.ParseCommitment([]byte(doc.Commitment))
	s, err := fairdraw.ParseStatement([]byte(doc.Statement.Statement))
	if malformed == nil && err == nil {
		d.due = c.ResultDueAt(s.Round)
	}
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
