package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/telemetry"
)

// Where an act's record was written before the act was forwarded. "dropped": only in the process's
// log, for lack of room elsewhere. "refused": nowhere, so the act was not forwarded.
const (
	inKafka       = "kafka"
	inRedis       = "redis"
	inMemory      = "memory"
	droppedRecord = "dropped"
	refused       = "refused"
)

var (
	records = telemetry.CounterOf("urr_audit_acts_total", "Acts of operators, by where they were recorded before they were forwarded.", "recorded",
		inKafka, inRedis, inMemory, droppedRecord, refused)
	// Every gateway that reaches Redis reports the same value.
	waitingGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_audit_waiting", Help: "Records of operators' acts that wait in Redis for Kafka.",
	})
	heldGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_audit_held", Help: "Records of operators' acts and of their outcomes that wait in this process.",
	})
	dropped = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_audit_dropped_total", Help: "Records of acts or outcomes that found no place to wait; those of acts are in the log.",
	})
)
