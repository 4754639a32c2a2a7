package sqs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var announced = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_queue_announcements_total", Help: "Claimed slots for the SQS queue: sent, failed, or dropped because too many waited.",
}, []string{"result"})
