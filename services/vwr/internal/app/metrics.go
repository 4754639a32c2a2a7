package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"urr.guru/services/vwr/internal/room"
)

// figures reads the board when it is scraped. Only active events are told, so that the labels stay few.
type figures struct {
	board *room.Board
	stats *room.AdvancerStats
}

var (
	byEvent = []string{"event"}
	serving = prometheus.NewDesc("urr_vwr_serving", "The last position served.", byEvent, nil)
	issued  = prometheus.NewDesc("urr_vwr_issued", "Positions given out.", byEvent, nil)
	waiting = prometheus.NewDesc("urr_vwr_waiting", "Positions given out and not served.", byEvent, nil)
	claimed = prometheus.NewDesc("urr_vwr_claimed", "Served positions whose visitor came.", byEvent, nil)
	rate    = prometheus.NewDesc("urr_vwr_rate", "Measured positions per second; 0 until measured.", byEvent, nil)
	target  = prometheus.NewDesc("urr_vwr_configured_rate", "Configured positions per second.", byEvent, nil)
	steps   = prometheus.NewDesc("urr_vwr_advances_total",
		"This replica's writes of serving counters: won, lost to another replica, failed.", []string{"result"}, nil)
	claimsMissed = prometheus.NewDesc("urr_vwr_claims_missed_total",
		"Reads of claims that failed: the event's share of claimed positions stays as it was.", nil, nil)
	fallbacks = prometheus.NewDesc("urr_vwr_load_fallbacks_total",
		"Steps that went by the rate because queue did not say how full tier 2 is.", nil, nil)
)

// expose registers the figures with Prometheus until the returned function is called.
func expose(b *room.Board, a *room.Advancer) (func(context.Context) error, error) {
	f := &figures{board: b, stats: a.Stats()}
	if err := prometheus.Register(f); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return func(context.Context) error {
		prometheus.Unregister(f)
		return nil
	}, nil
}

// Describe implements prometheus.Collector.
func (f *figures) Describe(out chan<- *prometheus.Desc) {
	// All of them, whatever is active: by these the collector is known when it is unregistered.
	for _, d := range []*prometheus.Desc{serving, issued, waiting, claimed, rate, target, steps, claimsMissed, fallbacks} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f *figures) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, event string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, event)
	}
	for _, st := range f.board.All() {
		if !st.Active {
			continue
		}
		gauge(serving, float64(st.Serving), st.EventID)
		gauge(issued, float64(st.Issued), st.EventID)
		gauge(waiting, float64(st.Waiting()), st.EventID)
		gauge(claimed, float64(st.Claimed), st.EventID)
		gauge(rate, st.Rate, st.EventID)
		gauge(target, st.Settings.Rate(), st.EventID)
	}
	for result, n := range map[string]int64{
		"won": f.stats.Won.Load(), "lost": f.stats.Lost.Load(), "failed": f.stats.Failed.Load(),
	} {
		out <- prometheus.MustNewConstMetric(steps, prometheus.CounterValue, float64(n), result)
	}
	out <- prometheus.MustNewConstMetric(claimsMissed, prometheus.CounterValue, float64(f.stats.ClaimsMissed.Load()))
	out <- prometheus.MustNewConstMetric(fallbacks, prometheus.CounterValue, float64(f.stats.Fallbacks.Load()))
}
