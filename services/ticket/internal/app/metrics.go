package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/transfer"
)

const (
	updateInterval = 10 * time.Second
	// soldEvents is the most events in the metric urr_sold: the events whose sale opened last.
	soldEvents = 100
)

var inconsistent = promauto.NewGauge(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_reservations_inconsistent",
	Help: "Reservations whose time is over and that cannot be expired, since they contradict what else the database says. Each replica finds them itself.",
})

var sold = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_sold",
	Help: "Places sold and not refunded, by event, of sales that are open, open within 15 min, or ended less than a day ago. Every replica reports the same.",
}, []string{"event"})

var offSale = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_off_sale",
	Help: "Places that nobody has and nobody can buy now, by event, of sales that are open, or open within 15 min: those that were given back and are for sale again later (returning), and those that the organiser keeps (house). Every replica reports the same.",
}, []string{"event", "what"})

var cancelledRemaining = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_cancelled_left",
	Help: "What must still be ended at cancelled events whose refunds have begun: unpaid reservations (holds), and orders with places that were not given back. Every replica reports the same.",
}, []string{"what"})

// reportRemaining returns a worker that updates the metric urr_cancelled_left with what count
// returns. When count fails, the metric keeps its last values.
func reportRemaining(count func(context.Context) (cancellation.Remaining, error), log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, updateInterval, log, "rest of cancelled events not counted", func(ctx context.Context) error {
			remaining, err := count(ctx)
			if err == nil {
				cancelledRemaining.WithLabelValues("holds").Set(float64(remaining.Holds))
				cancelledRemaining.WithLabelValues("orders").Set(float64(remaining.Orders))
			}
			return err
		})
	}
}

var offers = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_transfers",
	Help: "Offers of tickets to other users: open ones, those whose payment is awaited, and of both those whose time has been over for a minute (overdue). Every replica reports the same.",
}, []string{"state"})

// reportOffers returns a worker that updates the metric urr_transfers with what count returns. When
// count fails, the metric keeps its last values.
func reportOffers(count func(context.Context) (transfer.Counts, error), log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, updateInterval, log, "offers of tickets not counted", func(ctx context.Context) error {
			c, err := count(ctx)
			if err == nil {
				offers.WithLabelValues("open").Set(float64(c.Open))
				offers.WithLabelValues("awaiting_payment").Set(float64(c.Awaited))
				offers.WithLabelValues("overdue").Set(float64(c.Overdue))
			}
			return err
		})
	}
}

var unpaidPurchases = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_memberships_unpaid",
	Help: "Purchases of memberships: those that are to be paid (pending), and of them those whose time has been over for a minute (overdue). Every replica reports the same.",
}, []string{"state"})

// reportPurchases returns a worker that updates the metric urr_memberships_unpaid with what count
// returns. When count fails, the metric keeps its last values.
func reportPurchases(count func(context.Context) (membership.Counts, error), log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, updateInterval, log, "purchases of memberships not counted", func(ctx context.Context) error {
			c, err := count(ctx)
			if err == nil {
				unpaidPurchases.WithLabelValues("pending").Set(float64(c.Pending))
				unpaidPurchases.WithLabelValues("overdue").Set(float64(c.Overdue))
			}
			return err
		})
	}
}

// placesGauge updates the metrics urr_sold and urr_off_sale, the numbers of places by event.
type placesGauge struct {
	count func(ctx context.Context, max int) (map[string]event.Places, error)
	log   *slog.Logger
	last  map[string]event.Places
}

func (g *placesGauge) run(ctx context.Context) error {
	return loop.Every(ctx, updateInterval, g.update)
}

// update replaces the values of the metrics one by one, without a reset, so that a scrape always
// finds all of them. When the places cannot be counted, the metrics keep their last values.
func (g *placesGauge) update(ctx context.Context) {
	counts, err := g.count(ctx, soldEvents)
	if err != nil {
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "places not counted", "error", err)
		}
		return
	}
	for id, n := range counts {
		sold.WithLabelValues(id).Set(float64(n.Sold))
		if !n.Selling { // of a cancelled event everything comes back
			offSale.DeletePartialMatch(prometheus.Labels{"event": id})
			continue
		}
		offSale.WithLabelValues(id, "returning").Set(float64(n.Returning))
		offSale.WithLabelValues(id, "house").Set(float64(n.House))
	}
	for id := range g.last {
		if _, found := counts[id]; !found {
			sold.DeleteLabelValues(id)
			offSale.DeletePartialMatch(prometheus.Labels{"event": id})
		}
	}
	g.last = counts
}
