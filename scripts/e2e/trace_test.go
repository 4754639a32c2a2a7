package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// TestOneTrace follows a purchase from the browser's request to the sales figures in one trace:
// gateway → payment → outbox → Kafka → ticket → Kafka → stats. The provider sends no webhooks: one
// before the response to the charge would move the confirmation to its own trace.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	p := harness.Start(t, harness.Options{Env: map[string][]string{
		"*": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.addr}, platform.Sandbox: {"WEBHOOK_URL="},
	}})
	event := newSale(t, p)
	for seat, confirmed := 1, false; !confirmed; seat++ {
		b := newBuyer(t, p, event)
		held := b.hold(fmt.Sprintf("A-1-%d", seat))
		answer, atOnce := b.confirm(b.prepare(held), "ok-"+uuid.NewString())
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
		b.awaitStatus(p, held, "CONFIRMED")
		awaitSold(p, event, int64(seat))
		// On a busy machine a payment may be pending, or be sent again. It may then be completed later,
		// in another trace, so the next buyer tries.
		var result struct{ Status string }
		require.NoError(t, answer.Decode(&result))
		confirmed = atOnce && result.Status == "CONFIRMED"
	}

	p.Eventually(func(context.Context) error { return c.findPurchase() })
}

// purchaseSpans are the spans that the trace must contain, by service and part of the name.
var purchaseSpans = []struct{ service, name string }{
	{"gateway", "payments/confirm"},
	{"payment", "Confirm"},
	{"payment", "payment-events"},
	{"ticket", "payment-events"},
	{"ticket", "reservation-events"},
	{"stats", "reservation-events"},
}

// findPurchase requires a trace with all spans. The error lists what the most complete trace lacks.
func (c *traceCollector) findPurchase() error {
	var fewest []string
	for _, root := range c.allSpans() {
		if root.service != "gateway" || !strings.Contains(root.name, "payments/confirm") {
			continue
		}
		missing := missingSpans(c.spansOf(root.trace))
		if len(missing) == 0 {
			return nil
		}
		if fewest == nil || len(missing) < len(fewest) {
			fewest = missing
		}
	}
	if fewest == nil {
		return errors.New("there is no trace of a request to confirm")
	}
	return fmt.Errorf("the trace lacks %s", strings.Join(fewest, ", "))
}

func missingSpans(spans []span) []string {
	var missing []string
	for _, want := range purchaseSpans {
		has := slices.ContainsFunc(spans, func(s span) bool { return s.service == want.service && strings.Contains(s.name, want.name) })
		if !has {
			missing = append(missing, want.service+" "+want.name)
		}
	}
	return missing
}
