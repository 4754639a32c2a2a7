package cluster_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// upgradedConnections is the ticket service's maximum of PostgreSQL connections after the upgrade.
const upgradedConnections = 13

// everyPod selects the pods of all services, but not those of migrations.
const everyPod = "app.kubernetes.io/instance=urr,helm.sh/chart"

var reportedVersion = regexp.MustCompile(`(?m)^urr_build_info\{version="([^"]+)"\} 1$`)

// version returns the tag of the image, which the pod's program reports, maybe with "+commit".
func (p pod) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	metrics, err := p.metrics(ctx)
	if err != nil {
		return "", err
	}
	m := reportedVersion.FindStringSubmatch(metrics)
	if m == nil {
		return "", fmt.Errorf("%s reports no version", p.name)
	}
	version, _, _ := strings.Cut(m[1], "+")
	return version, nil
}

// replaceAll upgrades the release. It returns the services that had ready pods of both versions at
// the same time.
func (w *world) replaceAll(t *testing.T) (both map[string]bool) {
	t.Helper()
	// With --reset-then-reuse-values, the defaults of the new charts apply.
	args := append([]string{
		"upgrade", "urr", w.chart("urr"), "-n", namespace, "--reset-then-reuse-values", "--wait", "--timeout", "5m",
		"--set", "global.image.tag=" + upgradedTag, "--set", "global.telemetry.logLevel=warn",
		"--set", fmt.Sprintf("ticket.postgres.maxConnections=%d", upgradedConnections),
	}, withAdded(true)...)
	ended := make(chan error, 1)
	go func() {
		_, err := w.try(t, "helm", args...)
		ended <- err
	}()
	both = map[string]bool{}
	var err error
	testkit.Until(t, func() bool {
		w.seeVersions(t, both)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	}, "helm has upgraded the release")
	w.requireNoError(t, err)
	return both
}

// seeVersions asks every ready pod for its version, and adds services with two versions to both.
func (w *world) seeVersions(t *testing.T, both map[string]bool) {
	t.Helper()
	versions := map[string][]string{}
	for _, p := range w.listPods(t, everyPod) {
		if !p.ready {
			continue
		}
		if version, err := p.version(t.Context()); err == nil && !slices.Contains(versions[p.service], version) { // else it has just ended
			versions[p.service] = append(versions[p.service], version)
		}
	}
	for service, seen := range versions {
		both[service] = both[service] || len(seen) == 2
	}
}

// requireUpgraded requires that each service that was installed before ran in both versions, and
// that every pod has the new version and setting.
func (w *world) requireUpgraded(t *testing.T, both map[string]bool) {
	t.Helper()
	for _, s := range platform.Services() {
		if s.Name != platform.Sandbox && !slices.Contains(addedServices(), s.Name) {
			require.True(t, both[s.Name], "%s did not run in both versions at one time", s.Name)
		}
	}
	for _, p := range w.listPods(t, everyPod) {
		version, err := p.version(t.Context())
		require.NoError(t, err)
		require.Equal(t, upgradedTag, version, p.name)
	}
	for _, p := range w.podsOf(t, platform.Ticket) {
		require.InDelta(t, upgradedConnections, p.metric(t, "urr_pool_connections_max", `pool="ticket"`), 0, p.name)
	}
}
