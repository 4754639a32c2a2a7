package cluster_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

var enabled = flag.Bool("cluster", false, "install the charts on a Kubernetes of this machine")

// readyWithin is the time limit of an installation once the images are imported.
const readyWithin = 3 * time.Minute

// TestCluster runs steps that depend on each other, since the cluster is created only once.
func TestCluster(t *testing.T) {
	if !*enabled {
		t.Skip("it takes minutes and root: make cluster-test")
	}
	w := newWorld(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"install", w.install},
		{"journey", w.journey},
		{"failed migration", w.failedMigration},
		{"upgrade under load", w.upgrade},
		{"rewards", w.payRewards},
		{"requests", w.settleRequests},
		{"key rotation under load", w.rotation},
		{"interruption of Redis", w.interruption},
		{"stuck rollout", w.stuckRollout},
		{"more replicas", w.scaleUp},
		{"one chart alone", w.alone},
		{"uninstall", w.uninstall},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
}

// install installs the platform in a namespace that admits restricted pods only, without the
// services that the upgrade adds.
func (w *world) install(t *testing.T) {
	t.Helper()
	w.makeNamespace(t, namespace)
	w.makePasswords(t, namespace, slices.Sorted(maps.Keys(w.passwords))...)
	w.kubectl(t, "apply", "-f", w.checkout.Root+"/deploy/kind/sandbox.yaml")
	began := time.Now()
	args := append([]string{
		"install", "urr", w.chart("urr"), "-n", namespace, "--wait", "--timeout", "5m",
		"--values", w.chart("urr", "values-development.yaml"), "--values", "testdata/values.yaml",
		"--set", "secrets.databaseURL=" + w.databaseURL("%s"),
	}, append(withAdded(false), w.backendValues()...)...)
	w.run(t, "helm", args...)
	took := time.Since(began)
	t.Logf("all ready after %s", took.Round(time.Second))
	t.Logf("\n%s", w.kubectl(t, "get", "deployments,pods"))
	require.LessOrEqual(t, took, readyWithin)
	w.kubectl(t, "rollout", "status", "deployment/sandbox", "--timeout=60s")
}

// journey runs helm test: simulated visitors go from the waiting room to the ticket, inside the
// cluster.
func (w *world) journey(t *testing.T) {
	t.Helper()
	w.run(t, "helm", "test", "urr", "-n", namespace, "--timeout", "4m")
	t.Logf("\n%s", w.kubectl(t, "logs", "urr-journey"))
}

// failedMigration checks that a failed migration stops an upgrade before any pod is replaced. The
// release can then be rolled back and upgraded.
func (w *world) failedMigration(t *testing.T) {
	t.Helper()
	before := w.pods(t)
	upgrade := []string{"upgrade", "urr", w.chart("urr"), "-n", namespace, "--reuse-values", "--wait", "--timeout", "3m"}
	_, err := w.try(t, "helm", append(upgrade, "--set", "payment.kafka.brokers={"+node+":1}", "--set", "payment.migration.deadlineSeconds=10",
		"--set", "global.telemetry.logLevel=debug")...)
	require.ErrorContains(t, err, "urr-payment-migrate")
	require.Equal(t, before, w.pods(t), "nothing but the migration was tried")
	require.Contains(t, w.kubectl(t, "get", "jobs", "-o", "name"), "job.batch/urr-payment-migrate", "the failed one stays, to be read")

	w.run(t, "helm", "rollback", "urr", "-n", namespace, "--wait", "--timeout", "3m")
	w.run(t, "helm", upgrade...)
	require.Equal(t, before, w.pods(t), "the same values are the same pods")
	require.NotContains(t, w.kubectl(t, "get", "jobs", "-o", "name"), "migrate")
}

// addedServices are the services that the upgrade adds.
func addedServices() []string { return []string{platform.Reward, platform.Ingest, platform.Worker} }

// withAdded returns the Helm values that install the added services, or leave them out.
func withAdded(installed bool) []string {
	address := "none"
	if installed {
		address = ""
	}
	var args []string
	for _, name := range addedServices() {
		args = append(args, "--set", fmt.Sprintf("%s.enabled=%t", name, installed))
		for _, caller := range platform.Callers(name) {
			args = append(args, "--set", caller+".rpc.calls."+name+".address="+address)
		}
	}
	return args
}

// upgrade replaces every pod by one of another version and with other settings, and adds the
// reward, ingest and worker services, while a crowd buys. Meanwhile each service runs in both
// versions, and no request fails.
func (w *world) upgrade(t *testing.T) {
	t.Helper()
	before := w.pods(t)
	secret := w.kubectl(t, "get", "secret", "urr-session", "-o", "jsonpath={.data.secret}")
	w.kubectl(t, "apply", "-f", "testdata/crowd.yaml")
	w.kubectl(t, "wait", "--for=condition=Ready", "pod", "-l", "job-name=crowd", "--timeout=60s")
	testkit.Until(t, func() bool {
		return strings.Contains(w.kubectl(t, "logs", "job/crowd"), "visitors come")
	}, "the crowd has come")
	began := time.Now()
	both := w.replaceAll(t)
	w.added = true
	w.awaitRollouts(t)
	t.Logf("every pod replaced after %s", time.Since(began).Round(time.Second))
	require.NotContains(t, w.kubectl(t, "logs", "job/crowd"), "all have gone", "the crowd must be there until the last pod is replaced")
	for pod := range w.pods(t) {
		require.NotContains(t, before, pod)
	}
	w.requireUpgraded(t, both)
	require.Equal(t, secret, w.kubectl(t, "get", "secret", "urr-session", "-o", "jsonpath={.data.secret}"), "keys are made once")
	testkit.Until(t, func() bool {
		state := w.kubectl(t, "get", "job", "crowd", "-o", "jsonpath={.status.conditions[*].type}")
		return strings.Contains(state, "Complete") || strings.Contains(state, "Failed")
	}, "the crowd has gone")
	t.Logf("\n%s", w.kubectl(t, "logs", "job/crowd"))
	require.Equal(t, "1", w.kubectl(t, "get", "job", "crowd", "-o", "jsonpath={.status.succeeded}"), "a request failed")
}

// alone installs the chart of one service in its own namespace; its backends and callees are
// elsewhere.
func (w *world) alone(t *testing.T) {
	t.Helper()
	const aloneNamespace = "alone"
	w.makeNamespace(t, aloneNamespace)
	secret := func(name string, members ...string) {
		w.run(t, "kubectl", append([]string{"-n", aloneNamespace, "create", "secret", "generic", name}, members...)...)
	}
	key := strings.Repeat("k", 40)
	secret("urr-database-ticket", "--from-literal=url="+w.databaseURL("urr_ticket"))
	secret("urr-ticket-code", "--from-literal=secret=1:"+strings.Repeat("A", 43)+"=")
	for _, caller := range platform.Callers(platform.Ticket) {
		secret("urr-rpc-"+caller+"-ticket", "--from-literal=key="+key)
	}
	var members []string
	for member, content := range platform.NewSecrets().TLS(platform.Ticket).Certificate {
		members = append(members, "--from-literal="+member+"="+content.Reveal())
	}
	secret("urr-tls-ticket", members...)
	require.NoError(t, topics.Grant(t.Context(), []string{w.layout.KafkaBroker()}, "alone-"))
	w.makePasswords(t, aloneNamespace, platform.Ticket)
	keys := kafkatest.WithKeys(kafka.Config{})
	for writer, public := range keys.PublicKeys {
		secret("urr-events-"+writer, "--from-literal=key="+keys.SigningKey.Reveal(), "--from-literal=public="+public.Reveal())
	}
	args := append([]string{
		"install", "ticket", w.chart("ticket"), "-n", aloneNamespace, "--wait", "--timeout", "3m",
		"--set", "image.registry=urr.local", "--set", "kafka.prefix=alone-", "--set", "kafka.replicationFactor=1",
		"--set", "authorities=kube-root-ca.crt",
	}, w.backendValues()...)
	w.run(t, "helm", args...)
	t.Logf("\n%s", w.run(t, "kubectl", "-n", aloneNamespace, "get", "deployments,pods"))
	w.run(t, "helm", "uninstall", "ticket", "-n", aloneNamespace, "--wait")
	w.run(t, "kubectl", "delete", "namespace", aloneNamespace, "--timeout=2m")
}

// uninstall removes everything except the generated keys and the configurations, which outlive a
// release on purpose.
func (w *world) uninstall(t *testing.T) {
	t.Helper()
	w.run(t, "helm", "uninstall", "urr", "-n", namespace, "--wait", "--timeout", "3m")
	w.kubectl(t, "delete", "-f", w.checkout.Root+"/deploy/kind/sandbox.yaml")
	w.kubectl(t, "delete", "job/crowd", "pod/urr-journey", "--ignore-not-found")
	w.kubectl(t, "wait", "--for=delete", "pod", "--all", "--timeout=2m")
	require.Contains(t, w.kubectl(t, "delete", "configmaps", "-l", "app.kubernetes.io/part-of=urr"), "urr-gateway-")
	left := w.kubectl(t, "get", "all,configmaps,serviceaccounts,poddisruptionbudgets,networkpolicies,ingresses", "-o", "name")
	require.ElementsMatch(t, []string{"configmap/kube-root-ca.crt", "serviceaccount/default"}, strings.Fields(left))
	w.run(t, "kubectl", "delete", "namespace", namespace, "--timeout=2m")
}

func (w *world) makeNamespace(t *testing.T, name string) {
	t.Helper()
	w.run(t, "kubectl", "create", "namespace", name)
	w.run(t, "kubectl", "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
}

// awaitRollouts waits for the end of all rollouts. Helm does not wait until the last new pods have
// been ready for minReadySeconds.
func (w *world) awaitRollouts(t *testing.T) {
	t.Helper()
	w.kubectl(t, "rollout", "status", "deployment", "-l", "app.kubernetes.io/instance=urr", "--timeout=2m")
}

// pods returns the names of the services' pods that are not terminating.
func (w *world) pods(t *testing.T) map[string]bool {
	t.Helper()
	pods := map[string]bool{}
	list := w.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/instance=urr,helm.sh/chart",
		"-o", `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`)
	for _, name := range strings.Fields(list) {
		pods[name] = true
	}
	services := len(platform.Services()) - 1 // all but the sandbox
	if !w.added {
		services -= len(addedServices())
	}
	require.Len(t, pods, 2*services, "two of each service")
	return pods
}
