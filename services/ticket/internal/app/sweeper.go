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
	// answersBatch bounds the remembered answers that one statement forgets; they are looked for every forgetEvery sweeps.
	answersBatch = 1000
	forgetEvery  = 60
)

// sweeper ends holds whose time is over. Nobody waits for it, since such a hold may be taken at once; it is there so that the seats'
// former holders, the queue and the figures hear of it.
type sweeper struct {
	store interface {
		ExpireDue(ctx context.Context, max int) (int, error)
		DeleteOldAnswers(ctx context.Context, max int) (int, error)
	}
	every time.Duration
	log   *slog.Logger
}

func (s *sweeper) run(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for n := 0; ; n++ {
		s.drain(ctx, "holds", sweepBatch, s.store.ExpireDue)
		if n%forgetEvery == 0 {
			s.drain(ctx, "answers", answersBatch, s.store.DeleteOldAnswers)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// drain repeats fn until it finds less than a full batch. A failure is for the next tick.
func (s *sweeper) drain(ctx context.Context, what string, batch int, fn func(context.Context, int) (int, error)) {
	for ctx.Err() == nil {
		n, err := fn(ctx, batch)
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "sweep failed", "what", what, "error", err)
			}
			return
		}
		if n < batch {
			return
		}
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
}, []string{"event_id"})

// soldGauge keeps urr_sold.
type soldGauge struct {
	store interface {
		SoldByEvent(ctx context.Context, max int) (map[string]int64, error)
	}
	log *slog.Logger
}

func (g *soldGauge) run(ctx context.Context) error {
	tick := time.NewTicker(soldEvery)
	defer tick.Stop()
	for {
		if counts, err := g.store.SoldByEvent(ctx, soldEvents); err == nil {
			sold.Reset()
			for id, n := range counts {
				sold.WithLabelValues(id).Set(float64(n))
			}
		} else if ctx.Err() == nil {
			g.log.WarnContext(ctx, "sold places not counted", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
