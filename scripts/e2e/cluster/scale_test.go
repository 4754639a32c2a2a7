package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// trafficWithin is the time within which a new pod that is ready must receive calls.
const trafficWithin = 60 * time.Second

// scaleUp doubles the pods of the queue service under load, and then removes two. Callers find the
// new pods, and no request fails.
func (w *world) scaleUp(t *testing.T) {
	t.Helper()
	oldPods := map[string]bool{}
	for _, p := range w.podsOf(t, platform.Queue) {
		oldPods[p.name] = true
	}
	requests, stop := w.startPolls(t, "cluster-scale")
	w.kubectl(t, "scale", "deployment/urr-queue", "--replicas=4")
	waits := map[string]time.Duration{} // from ready to the first call that was seen
	testkit.Until(t, func() bool {
		late := false
		for _, p := range w.podsOf(t, platform.Queue) {
			if _, found := waits[p.name]; found || oldPods[p.name] || !p.ready {
				continue
			}
			waited := time.Since(p.readySince)
			if p.metric(t, "urr_rpc_server_seconds_count", `method="/urr.queue.`) > 0 {
				waits[p.name] = waited
			}
			late = late || waited > trafficWithin
		}
		return len(waits) == 2 || late
	}, "the new pods are ready")
	t.Logf("from ready to the first call: %v", waits)
	require.Len(t, waits, 2, "new pods that got calls within %s", trafficWithin)

	w.kubectl(t, "scale", "deployment/urr-queue", "--replicas=2")
	testkit.Until(t, func() bool {
		return len(strings.Fields(w.kubectl(t, "get", "pods", "-l", podsLabel(platform.Queue), "-o", "name"))) == 2
	}, "two pods have ended")
	stop()
	sent, failures := requests.results()
	t.Logf("%d requests", sent)
	require.Empty(t, failures)
}
