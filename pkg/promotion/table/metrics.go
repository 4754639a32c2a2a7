package table

import (
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/telemetry"
)

var requestsTotal = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_requests_total", "Requests that entered a status, by committed transactions of this process.", "status")

var unreadableTotal = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_requests_unreadable_items_total", "Items of the table that could not be read when they were met, by the first part of their key.", "item")

var blocksShared = telemetry.Gauge( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_requests_slots_shared", "1 while another process has the same slots for the figures of events, else 0.").WithLabelValues()

// StartMetrics makes the counters start at 0, so that alerts see the first increase.
func StartMetrics() {
	for _, s := range []promotion.Status{
		promotion.Received, promotion.Queued, promotion.Processing, promotion.Succeeded, promotion.Rejected, promotion.FailedFinal,
	} {
		requestsTotal.WithLabelValues(string(s))
	}
	for _, item := range []string{"REQ", "PENDING", "IDEMP", "EVENT", "ENTRY", "EXCLUDED", "OUTBOX", "DLQ"} {
		unreadableTotal.WithLabelValues(item)
	}
}
