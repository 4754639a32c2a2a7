package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// world is the platform with the visitors of the HTTP rows.
type world struct {
	platform *harness.Platform
	visitors []visitor
}

// newWorld opens the events, and lets the visitors sign in and wait in both tiers.
func newWorld(ctx context.Context, p *harness.Platform) (*world, error) {
	w := &world{platform: p, visitors: make([]visitor, users)}
	admin := p.Operator()
	now := time.Now().UTC().Truncate(time.Second)
	for _, event := range []string{room, line} {
		admin.Must(ctx, http.MethodPut, "/api/v1/admin/events/"+event, map[string]any{
			"title": "Bench", "artist": "The Crowd", "venue": "Hall 1", "startsAt": now.Add(30 * 24 * time.Hour),
			"salesOpenAt": now.Add(-time.Minute), "salesCloseAt": now.Add(24 * time.Hour), "seating": "ASSIGNED", "currency": "KRW",
			"maxPerUser": 2, "threshold": 0, "sections": []map[string]any{{"section": "A", "price": 55000, "rows": 25, "seatsPerRow": 20}},
		}, nil)
	}
	admin.Must(ctx, http.MethodPost, "/api/v1/admin/vwr/activate/"+room, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	defer api.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range w.visitors {
		group.Go(func() (err error) {
			w.visitors[i], err = w.arrive(ctx, api, i)
			return err
		})
	}
	return w, group.Wait()
}

// arrive signs a visitor in, and joins the waiting room and the line.
func (w *world) arrive(ctx context.Context, api *crowd.API, i int) (visitor, error) {
	browser := api.NewSession()
	if err := browser.DevLogin(ctx, fmt.Sprintf("bench-%04d", i)); err != nil {
		return visitor{}, err
	}
	var assigned struct{ RequestID, Ticket string }
	var place struct{ Status, Ticket string }
	err := errors.Join(
		post(ctx, browser, crowd.StepAssign, "/vwr-api/vwr/assign/"+room, &assigned),
		post(ctx, browser, crowd.StepQueueJoin, "/api/v1/queue/check/"+line, &place),
	)
	if err == nil && place.Status != "queued" {
		err = fmt.Errorf("visitor %d does not wait in the line: %q", i, place.Status)
	}
	return visitor{
		address: browser.Address(), cookies: browser.Cookies(),
		requestID: assigned.RequestID, roomTicket: assigned.Ticket, lineTicket: place.Ticket,
	}, err
}

func post(ctx context.Context, browser *crowd.Session, step crowd.Step, path string, into any) error {
	answer, err := browser.Call(ctx, step, http.MethodPost, path, map[string]any{}, nil)
	if err != nil {
		return err
	}
	if !answer.OK() {
		return fmt.Errorf("%s: %d: %s", path, answer.Status, answer.Body)
	}
	return json.Unmarshal(answer.Body, into)
}

func readAll(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return body, nil
}
