package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range w.visitors {
		group.Go(func() (err error) {
			w.visitors[i], err = w.arrive(ctx, i)
			return err
		})
	}
	return w, group.Wait()
}

// arrive signs a visitor in, and joins the waiting room and the line.
func (w *world) arrive(ctx context.Context, i int) (visitor, error) {
	v := visitor{address: platform.VisitorAddress(uint32(i + 1))} //nolint:gosec // a small number
	b := browser{world: w, visitor: &v, jar: map[string]string{}}
	var assigned struct{ RequestID, Ticket string }
	var place struct{ Status, Ticket string }
	err := errors.Join(
		b.post(ctx, "/api/v1/auth/dev-login", map[string]any{"userId": fmt.Sprintf("bench-%04d", i)}, nil),
		b.post(ctx, "/vwr-api/vwr/assign/"+room, map[string]any{}, &assigned),
		b.post(ctx, "/api/v1/queue/check/"+line, map[string]any{}, &place),
	)
	if err == nil && place.Status != "queued" {
		err = fmt.Errorf("visitor %d does not wait in the line: %q", i, place.Status)
	}
	v.requestID, v.roomTicket, v.lineTicket = assigned.RequestID, assigned.Ticket, place.Ticket
	return v, err
}

// browser keeps the cookies of a visitor who arrives.
type browser struct {
	world   *world
	visitor *visitor
	jar     map[string]string
}

// post sends a request, keeps the cookies, and decodes the body into `into` unless that is nil.
func (b *browser) post(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.world.platform.Service(platform.Gateway).Addr(0)+path, strings.NewReader(string(raw)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("X-Forwarded-For", b.visitor.address)
	req.Header.Set("Cookie", b.visitor.cookies)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	answer, err := readAll(res)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", path, res.Status, answer)
	}
	for _, c := range res.Cookies() {
		b.jar[c.Name] = c.Value
	}
	var cookies []string
	for _, name := range slices.Sorted(maps.Keys(b.jar)) {
		cookies = append(cookies, name+"="+b.jar[name])
	}
	b.visitor.cookies = strings.Join(cookies, "; ")
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func readAll(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return body, nil
}
