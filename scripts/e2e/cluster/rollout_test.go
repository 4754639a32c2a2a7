package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// stuckRollout upgrades to a setting with which gateways do not start. The pods of the previous
// revision keep its configuration: both a pod that is replaced and one whose container restarts
// become ready again. Then the release is rolled back.
func (w *world) stuckRollout(t *testing.T) {
	t.Helper()
	before := w.podsOf(t, platform.Gateway)
	require.Len(t, before, 2)
	// The schema allows any duration, but the gateway refuses one below a minute. So does its
	// migration, which is disabled, or the upgrade would end before a pod is replaced.
	w.run(t, "helm", "upgrade", "urr", w.chart("urr"), "-n", namespace, "--reuse-values",
		"--set", "gateway.config.SESSION_LIFE=1s", "--set", "gateway.migration.enabled=false")
	testkit.Until(t, func() bool {
		for _, p := range w.podsOf(t, platform.Gateway) {
			if p.revision != before[0].revision && p.crashed {
				return true
			}
		}
		return false
	}, "a pod of the new revision crashes")

	w.kubectl(t, "delete", "pod", before[0].name)
	w.run(t, "ctr", "tasks", "kill", "--signal", "SIGKILL", before[1].container)
	w.kubectl(t, "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/"+before[1].name, "--timeout=60s")
	selector := podsLabel(platform.Gateway) + ",pod-template-hash=" + before[0].revision
	w.kubectl(t, "wait", "--for=condition=Ready", "pod", "-l", selector, "--timeout=60s")

	w.run(t, "helm", "rollback", "urr", "-n", namespace, "--wait", "--timeout", "3m")
	w.awaitRollouts(t)
	testkit.Until(t, func() bool { return len(w.podsOf(t, platform.Gateway)) == 2 }, "the crashing pod is removed")
	for _, p := range w.podsOf(t, platform.Gateway) {
		require.Equal(t, before[0].revision, p.revision)
		require.True(t, p.ready)
	}
}
