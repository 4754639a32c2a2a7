package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

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
	for _, event := range []string{room, line} {
		putEvent(ctx, p, event, 0, nil, sectionOf("A", 25, 20))
	}
	p.Operator().Must(ctx, http.MethodPost, "/api/v1/admin/vwr/activate/"+room, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	defer api.Close()
	return w, atOnce(ctx, 16, users, func(ctx context.Context, i int) (err error) {
		w.visitors[i], err = w.arrive(ctx, api, i)
		return err
	})
}

// arrive signs a visitor in, and joins the waiting room and the line.
func (w *world) arrive(ctx context.Context, api *crowd.API, i int) (visitor, error) {
	browser := api.NewSession()
	if err := browser.DevLogin(ctx, fmt.Sprintf("bench-%04d", i)); err != nil {
		return visitor{}, err
	}
	var assigned struct{ Ticket string }
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
		roomTicket: assigned.Ticket, lineTicket: place.Ticket,
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
