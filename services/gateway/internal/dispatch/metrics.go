package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/gateway/internal/edge"
)

// requestSeconds measures the requests of each route: its count gives the rate, its buckets the
// durations. Its label kind is "ok", or the errs.Kind of an error. refusals counts errors by code.
var (
	requestSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "urr_http_seconds", Help: "Time the gateway took to answer a request.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 17),
	}, []string{"route", "kind"})
	refusals = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_http_refusals_total", Help: "Requests that were refused or failed, by stable code.",
	}, []string{"route", "code"})
)

// durationObservers returns, by route, the histogram of the durations of successes. The histograms
// are looked up once, since fast-path routes respond in microseconds.
func durationObservers(routes []*edge.Route) map[*edge.Route]prometheus.Observer {
	observers := make(map[*edge.Route]prometheus.Observer, len(routes))
	for _, r := range routes {
		observers[r] = requestSeconds.WithLabelValues(r.ID, "ok")
	}
	return observers
}

func (d *Dispatcher) observeDuration(q *edge.Request, start time.Time) {
	took := time.Since(start).Seconds()
	if q.Refused == nil {
		if !q.Route.Stream { // how long clients listen says nothing about the gateway
			d.successes[q.Route].Observe(took)
		}
		return
	}
	route := "none"
	if q.Route != nil {
		route = q.Route.ID
	}
	requestSeconds.WithLabelValues(route, string(q.Refused.Kind)).Observe(took)
	refusals.WithLabelValues(route, q.Refused.Reason).Inc()
}
