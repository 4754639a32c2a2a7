package promo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// sampleEvery is the interval of the samples.
const sampleEvery = 500 * time.Millisecond

// draw is what was seen of the lottery's draw while it went on.
type draw struct {
	announced time.Time
	phase     fairdraw.Phase
	// earlier is the first document with a root: it proves when that existed.
	earlier *fairdraw.Document
}

// burst lets a crowd apply at once, and waits until all its requests are settled, or, of a lottery,
// taken.
func (r *run) burst(ctx context.Context, b *burst) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.Visits(ctx, len(b.users), atOnce, 0, 0, func(ctx context.Context, i int) string {
			return b.name + ": " + b.applyAs(ctx, i, &r.Tally)
		})
	}()
	defer func() { <-gone }()
	return demo.Watch(ctx, sampleEvery, r.cfg.Limit, func(ctx context.Context) (demo.State, error) {
		unsettled, err := r.sample(ctx)
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

// sample reads the figures that operators see, and returns how many requests have no result.
func (r *run) sample(ctx context.Context) (unsettled int64, err error) {
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
		if !answer.OK() { // overloaded for a moment
			return 1, nil
		}
		if err := json.Unmarshal(answer.Body, &figures); err != nil {
			return 0, fmt.Errorf("sample: %w", err)
		}
		accepted += figures.Accepted
		unsettled += figures.Unsettled
	}
	r.Note(demo.Value{Name: "answered", N: r.Tally.Gone.Load()}, demo.Value{Name: "accepted", N: accepted}, demo.Value{Name: "settled", N: accepted - unsettled})
	return unsettled, nil
}

// awaitDraw follows the phases of the draw until every request has its result.
func (r *run) awaitDraw(ctx context.Context) error {
	limit := time.Until(r.draw.announced.Add(r.cfg.Limit))
	return demo.Watch(ctx, sampleEvery, limit, func(ctx context.Context) (demo.State, error) {
		unsettled, err := r.sample(ctx)
		if err != nil {
			return demo.Settling, err
		}
		doc, err := r.document(ctx)
		if err != nil {
			return demo.Settling, nil //nolint:nilerr // it is read again
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

// document reads what is public of the draw.
func (r *run) document(ctx context.Context) (*fairdraw.Document, error) {
	body, err := r.read(ctx, "/api/v1/draws/"+r.lottery.event)
	if err != nil {
		return nil, err
	}
	return fairdraw.ParseDocument(body)
}

func (r *run) read(ctx context.Context, path string) ([]byte, error) {
	answer, err := r.operator.Call(ctx, crowd.StepDocument, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if !answer.OK() {
		return nil, fmt.Errorf("%s: %d %s", path, answer.Status, answer.Problem().Code)
	}
	return answer.Body, nil
}
