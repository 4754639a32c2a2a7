package sqs_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/sqs"
)

// Every result has a counter from the start, so that its first occurrence is an increase.
func TestCountersExistFromTheStart(t *testing.T) {
	t.Parallel()
	sqs.New(dead{}, "unused", slog.New(slog.DiscardHandler))
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	var results []string
	for _, f := range families {
		if f.GetName() == "urr_queue_announcements_total" {
			for _, m := range f.GetMetric() {
				results = append(results, m.GetLabel()[0].GetValue())
			}
		}
	}
	require.ElementsMatch(t, []string{"sent", "failed", "dropped"}, results)
}
