package rpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

var ( //nolint:gochecknoglobals // metrics are registered once per process
	answered = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_queue_answers_total",
		Help: "Items of visitors' calls, by call and result: queued, active, none, or the code of the refusal.",
	}, []string{"call", "result"})
	acts = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_queue_operator_acts_total",
		Help: "Acts of operators on lines, by act (threshold, pause, resume, revoke, block, unblock) and result: ok, or the code of the failure.",
	}, []string{"act", "result"})
	watchers = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_queue_watchers", Help: "Gateways that follow this replica's lines.",
	})
)

func countAnswer(call string, a line.PlaceAnswer) {
	if a.Err != nil {
		answered.WithLabelValues(call, errs.From(a.Err).Reason).Inc()
		return
	}
	answered.WithLabelValues(call, a.Place.Status).Inc()
}

func countOperatorCall(act string, err error) {
	result := "ok"
	if err != nil {
		result = errs.From(err).Reason
	}
	acts.WithLabelValues(act, result).Inc()
}
