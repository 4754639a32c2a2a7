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

// Sample is the state of both promotions at one instant.
type Sample struct {
	// Seconds since the beginning of the run.
	Seconds float64 `json:"seconds"`
	// Accepted are requests that were taken, Settled those with a result.
	Accepted int64 `json:"accepted"`
	Settled  int64 `json:"settled"`
}

// draw is what was seen of the lottery's draw while it went on.
type draw struct {
	announced time.Time
	phase     fairdraw.Phase
	// earlier is the first document with a root: it proves when that existed.
	earlier *fairdraw.Document
}

// run lets a crowd apply, and waits until all its requests are settled, or, of a lottery, taken.
func (d *Demo) run(ctx context.Context, b *burst, progress *demo.Progress) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		b.apply(ctx)
	}()
	defer func() { <-gone }()
	return demo.Watch(ctx, sampleEvery, d.opts.Limit, func(ctx context.Context) (demo.State, error) {
		unsettled, err := d.sample(ctx, progress)
		switch {
		case err != nil || !demo.Closed(gone):
			return demo.Acting, err
		case unsettled > 0 && b != d.lottery:
			return demo.Settling, nil
		default:
			return demo.Settled, nil
		}
	}, func() { progress.Say("requests are still unsettled after %s (LIMIT)", d.opts.Limit) })
}

// sample reads the figures that operators see, and returns how many requests have no result.
func (d *Demo) sample(ctx context.Context, progress *demo.Progress) (unsettled int64, err error) {
	s := Sample{Seconds: time.Since(d.began).Seconds()}
	for _, b := range []*burst{d.first, d.lottery} {
		if b.event == "" {
			continue
		}
		answer, err := d.operator.Call(ctx, crowd.StepProgress, http.MethodGet, "/api/v1/admin/promotions/"+b.event+"/summary", nil, nil)
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
		s.Accepted += figures.Accepted
		s.Settled += figures.Accepted - figures.Unsettled
		unsettled += figures.Unsettled
	}
	d.samples = append(d.samples, s)
	answered := d.first.tally.Gone() + d.lottery.tally.Gone()
	progress.Update(fmt.Sprintf("%4.0f s  answered %d  accepted %d  settled %d", s.Seconds, answered, s.Accepted, s.Settled), answered, s.Settled)
	return unsettled, nil
}

// awaitDraw follows the phases of the draw until every request has its result.
func (d *Demo) awaitDraw(ctx context.Context, progress *demo.Progress, say func(string, ...any)) error {
	limit := time.Until(d.draw.announced.Add(d.opts.Limit))
	return demo.Watch(ctx, sampleEvery, limit, func(ctx context.Context) (demo.State, error) {
		unsettled, err := d.sample(ctx, progress)
		if err != nil {
			return demo.Settling, err
		}
		doc, err := d.document(ctx)
		if err != nil {
			return demo.Settling, nil //nolint:nilerr // it is read again
		}
		if doc.Phase != d.draw.phase {
			d.draw.phase = doc.Phase
			say("the draw is %s", doc.Phase)
		}
		if d.draw.earlier == nil && doc.Statement != nil {
			doc.SavedAt = time.Now().UnixMilli()
			d.draw.earlier = doc
		}
		if doc.Phase == fairdraw.PhaseSettled && unsettled == 0 {
			return demo.Settled, nil
		}
		return demo.Settling, nil
	}, func() { progress.Say("the lottery is not settled %s after its announcement (LIMIT)", d.opts.Limit) })
}

// document reads what is public of the draw.
func (d *Demo) document(ctx context.Context) (*fairdraw.Document, error) {
	body, err := d.read(ctx, "/api/v1/draws/"+d.lottery.event)
	if err != nil {
		return nil, err
	}
	return fairdraw.ParseDocument(body)
}

func (d *Demo) read(ctx context.Context, path string) ([]byte, error) {
	answer, err := d.operator.Call(ctx, crowd.StepDocument, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if !answer.OK() {
		return nil, fmt.Errorf("%s: %d %s", path, answer.Status, answer.Problem().Code)
	}
	return answer.Body, nil
}
