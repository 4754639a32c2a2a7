package sqs_test

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/services/queue/internal/sqs"
)

// Every result has a counter from the start, so that its first occurrence counts as an increase.
func TestCountersExistFromTheStart(t *testing.T) {
	t.Parallel()
	sqs.New(dead{}, "unused", slog.New(slog.DiscardHandler))
	require.ElementsMatch(t, []string{"sent", "failed", "dropped"}, slices.Collect(maps.Keys(metricstest.ByLabel(t, "urr_queue_announcements_total", "result"))))
}
