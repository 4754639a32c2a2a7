package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
)

const (
	soldEvery = 10 * time.Second
	// soldEvents bounds the gauge's label: the sales that opened last.
	soldEvents = 100
)

var sold = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_sold",
	Help: "Places sold and not refunded, by event, of sales that are open or ended less than a day ago. Every replica reports the same.",
}, []string{"event"})

// soldGauge keeps urr_sold.
type soldGauge struct {
	count func(ctx context.Context, max int) (map[string]int64, error)
	log   *slog.Logger
	last  map[string]int64
}

func (g *soldGauge) run(ctx context.Context) error { return loop.Every(ctx, soldEvery, g.update) }

// update sets each figure in one step, so that a scrape always finds all of them. When they cannot
// be read, the last ones stay.
func (g *soldGauge) update(ctx context.Context) {
	counts, err := g.count(ctx, soldEvents)
	if err != nil {
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "sold places not counted", "error", err)
		}
		return
	}
	for id, n := range counts {
		sold.WithLabelValues(id).Set(float64(n))
	}
	for id := range g.last {
		if _, still := counts[id]; !still {
			sold.DeleteLabelValues(id)
		}
	}
	g.last = counts
}
