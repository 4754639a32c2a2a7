package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// sweepBatch bounds the holds that one transaction ends, and with them the seats it has locked.
	sweepBatch = 200
	// pruneEvery is after how many sweeps answers that were remembered long enough are forgotten.
	pruneEvery = 60
)

// sweeper ends holds whose time is over. Nobody waits for it, since such a hold may be taken at once; it is there so that the seats'
// former holders, the queue and the figures hear of it.
type sweeper struct {
	store interface {
		ExpireDue(ctx context.Context, max int) (int, error)
		Prune(ctx context.Context) error
	}
	every time.Duration
	log   *slog.Logger
}

func (s *sweeper) run(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for n := 0; ; n++ {
		s.told(ctx, "holds", s.expire(ctx))
		if n%pruneEvery == 0 {
			s.told(ctx, "answers", s.store.Prune(ctx))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// expire ends holds until it finds less than a full batch.
func (s *sweeper) expire(ctx context.Context) error {
	for ctx.Err() == nil {
		if n, err := s.store.ExpireDue(ctx, sweepBatch); err != nil || n < sweepBatch {
			return err
		}
	}
	return nil
}

// told logs a failure, which is for the next tick.
func (s *sweeper) told(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "sweep failed", "what", what, "error", err)
	}
}

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
	store interface {
		SoldByEvent(ctx context.Context, max int) (map[string]int64, error)
	}
	log  *slog.Logger
	told map[string]int64 // the last figures
}

func (g *soldGauge) run(ctx context.Context) error {
	tick := time.NewTicker(soldEvery)
	defer tick.Stop()
	for {
		g.tell(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell sets the figures, each in one step, so that no scrape finds some of them missing. When they cannot be read the last ones stay.
func (g *soldGauge) tell(ctx context.Context) {
	counts, err := g.store.SoldByEvent(ctx, soldEvents)
	if err != nil {
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "sold places not counted", "error", err)
		}
		return
	}
	for id, n := range counts {
		sold.WithLabelValues(id).Set(float64(n))
	}
	for id := range g.told {
		if _, still := counts[id]; !still {
			sold.DeleteLabelValues(id)
		}
	}
	g.told = counts
}
