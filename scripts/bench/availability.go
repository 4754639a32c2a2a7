package bench

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	availabilityRow = "availability_50k"
	hall            = "bench-hall" // an event of 50,000 seats, whose line admits everybody
	// tokenUse is how long the visitors keep an entry token. It lives a minute, and pages renew it
	// after half of that.
	tokenUse = 30 * time.Second
	// maxMapBytes is how long the response with all free seats may be, with its headers.
	maxMapBytes = 7000
)

// runAvailability measures the row of visitors who poll which seats are free.
func runAvailability(ctx context.Context, opts Options, _ []string, done func(rounds.Result)) error {
	return harness.Run(ctx, saleServices, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d visitors sign in and are admitted", users)
		h := &hallVisitors{world: &world{platform: p}}
		if err := h.arrive(ctx); err != nil {
			return err
		}
		r, err := h.row(ctx, opts.Rounds)
		if err == nil {
			done(r)
		}
		return err
	})
}

// hallVisitors poll which seats of the hall are free.
type hallVisitors struct {
	*world

	inside []insider
	tokens []string
	signed time.Time
	etag   string
}

// arrive opens the hall, sells half of its seats at random, and admits the visitors.
func (h *hallVisitors) arrive(ctx context.Context) error {
	putEvent(ctx, h.platform, hall, 2*users, nil, sectionOf("A", 250, 100), sectionOf("B", 250, 100))
	db := h.platform.DB(platform.Ticket) //nolint:contextcheck // it closes with the platform
	_, err := db.Exec(ctx, `
		UPDATE seats SET status = 'SOLD', reservation_id = gen_random_uuid() WHERE event_id = $1 AND random() < 0.5`, hall)
	if err != nil {
		return fmt.Errorf("sell seats: %w", err)
	}
	h.inside, err = letIn(ctx, h.platform, hall, users)
	return err
}

// requests are those of all visitors, with tokens that have not been used for long.
func (h *hallVisitors) requests() [][]byte {
	if time.Since(h.signed) > tokenUse {
		h.signed, h.tokens = time.Now(), make([]string, len(h.inside))
		for i := range h.inside {
			h.tokens[i] = h.inside[i].token(h.platform, hall)
		}
	}
	requests := make([][]byte, len(h.inside))
	for i := range requests {
		requests[i] = h.request(i)
	}
	return requests
}

func (h *hallVisitors) request(i int) []byte {
	v := h.inside[i].visitor
	v.cookies += "; urr-entry-token=" + h.tokens[i]
	header := "X-Queue-Entry-Token: " + h.tokens[i] + "\r\n"
	if h.etag != "" {
		header += "If-None-Match: " + h.etag + "\r\n"
	}
	return []byte(strings.TrimSuffix(string(v.request("/api/v1/seats/"+hall+"/availability")), "\r\n") + header + "\r\n")
}

// row measures polls of an unchanged map. map_bytes is the length of the response that has the map.
func (h *hallVisitors) row(ctx context.Context, n int) (r rounds.Result, err error) {
	h.requests()
	full, size, err := h.ask(ctx, h.request(0))
	if err != nil {
		return r, err
	}
	h.etag = full.Header.Get("ETag")
	unchanged, _, err := h.ask(ctx, h.request(0))
	if err != nil {
		return r, err
	}
	if full.Status != http.StatusOK || h.etag == "" || unchanged.Status != http.StatusNotModified {
		return r, fmt.Errorf("the map: %d with ETag %q: %s; unchanged: %d", full.Status, h.etag, full.Body, unchanged.Status)
	}
	return h.besideBare(ctx, n, rounds.Result{
		Name: availabilityRow, What: "GET /api/v1/seats/{event}/availability of 50,000 seats, unchanged",
		Must: 0.7, Aim: 0.8, Limits: map[string]float64{"map_bytes": maxMapBytes},
	}, unchanged, polling{
		connections: 32, services: []string{platform.Gateway, platform.Ticket}, requests: h.requests,
		parts: map[string]float64{"map_bytes": float64(size)},
	})
}
