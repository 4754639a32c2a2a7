package dynamo

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	counterWrites = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_vwr_counter_writes_total",
		Help: "Writes to an event's counter item, by purpose (position, serving); an item takes 1,000 writes/s.",
	}, []string{"purpose"})
	groupSize = promauto.NewHistogram(prometheus.HistogramOpts{
		Name: "urr_vwr_group_size", Help: "Assigns that were answered by one counter write.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	recordsWaiting = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_vwr_records_waiting", Help: "Positions that this replica has issued and not stored yet.",
	})
	gaps = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_vwr_gaps_total",
		Help: "Positions issued that nobody has, by cause: not_stored (the write failed), issued_twice (the visitor has another one).",
	}, []string{"cause"})
	claimsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_vwr_claims_total",
		Help: "Claims by what became of them: counted, dropped (queue full), failed (set not written, tried again), lost (count not written).",
	}, []string{"result"})
)
