package rpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	answered = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_vwr_answers_total",
		Help: "Items of visitors' calls, by call and result: position, admitted, waiting, or the code of the refusal.",
	}, []string{"call", "result"})
	watchers = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_vwr_watchers", Help: "Gateways that follow this replica's counters.",
	})
)
