package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/crowd"
)

// gateway returns the gateways' address inside the cluster, which this machine can reach too.
func (w *world) gateway(t *testing.T) string {
	t.Helper()
	return w.kubectl(t, "get", "service", "urr-gateway", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
}

// The number of visitors, and the time in which they come: longer than any step that uses them.
const (
	crowdSize = 300
	crowdTime = 6 * time.Minute
)

// buyers are a crowd of visitors that keep coming until the end of a step.
type buyers struct {
	crowd    *crowd.Crowd
	recorder *crowd.Recorder
	leave    context.CancelFunc
	gone     sync.WaitGroup
}

// startBuyers opens a sale with a waiting room and returns when the first visitor has a ticket.
func (w *world) startBuyers(t *testing.T) *buyers {
	t.Helper()
	b := &buyers{recorder: crowd.NewRecorder()}
	api := crowd.NewAPI("http://"+w.gateway(t), b.recorder)
	sale := crowd.Sale{EventID: "cluster-rotation", Seats: 1000, Threshold: 100, Rate: 20, Hold: 30, Slot: 60}
	require.NoError(t, sale.Open(t.Context(), api, "cluster-operator"))
	b.crowd = crowd.New(sale, api, crowd.Options{Visitors: crowdSize, Arrive: crowdTime, Seed: 1})
	ctx, cancel := context.WithCancel(t.Context())
	b.leave = cancel
	b.gone.Go(func() {
		defer api.Close()
		b.crowd.Run(ctx)
	})
	t.Cleanup(func() { cancel(); b.gone.Wait() })
	b.buy(t)
	return b
}

// buy waits until more tickets have been bought.
func (b *buyers) buy(t *testing.T) {
	t.Helper()
	tickets := b.crowd.Tally().Ticketed.Load()
	testkit.Until(t, func() bool { return b.crowd.Tally().Ticketed.Load() > tickets }, "visitors buy")
}

// end makes the crowd leave, and requires that no request has failed before.
func (b *buyers) end(t *testing.T) {
	t.Helper()
	require.Less(t, b.crowd.Tally().Gone.Load(), int64(crowdSize), "the crowd must be there until the end")
	// Read these before visitors are interrupted in the middle of a request.
	steps, outcomes := b.recorder.Summaries(), b.crowd.Tally().Outcomes()
	b.leave()
	b.gone.Wait()
	requests := 0
	for _, step := range steps {
		requests += step.Count
		require.Zero(t, step.Errors, "requests of %s failed, as: %s", step.Step, step.LastError)
	}
	for outcome := range outcomes {
		require.NotContains(t, outcome, "error")
	}
	require.Empty(t, b.crowd.Tally().ForgedPasses())
	t.Logf("%d requests, none failed; visits ended so: %v", requests, outcomes)
}
