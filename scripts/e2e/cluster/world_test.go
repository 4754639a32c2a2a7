// Package cluster_test installs the charts on a real Kubernetes, that of scripts/cluster, against
// backends on this machine. It needs root, minutes and most of the machine, so it is not part of
// make test: make cluster-test.
package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/images"
	"urr.guru/scripts/internal/tools"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

const (
	node      = "10.250.0.1" // the host's address for pods
	namespace = "urr"
	// The images of both tags are this checkout's; the programs report the tag as their version.
	tag         = "dev"
	upgradedTag = "next"
	// offset separates the run's ports from those of other runs.
	offset = 4300
)

// world is a cluster with imported images, and backends on the host.
type world struct {
	checkout platform.Layout
	layout   platform.Layout // of the backends
	backends *backends.Set
	links    map[int]*toxiproxy.Proxy // proxies from pods to backends, by the backend's base port
	helmDir  string
	// passwords has those of the services in Kafka.
	passwords map[string]string
	added     bool // the services that the upgrade adds are installed
}

func newWorld(t *testing.T) *world {
	t.Helper()
	require.Zero(t, os.Geteuid(), "the cluster needs root: sudo make cluster-test")
	checkout, err := platform.Find()
	require.NoError(t, err)
	w := &world{checkout: checkout, layout: checkout.ForRun("cluster", checkout.Offset+offset), links: map[int]*toxiproxy.Proxy{}}
	say := func(format string, args ...any) { t.Logf(format, args...) }
	w.helmDir, err = tools.Build(t.Context(), checkout, tools.Kubernetes, say, "helm")
	require.NoError(t, err)
	w.startCluster(t)
	for _, version := range []string{upgradedTag, tag} { // both are written to the same file
		archive, err := images.Builder{Layout: checkout, Say: say}.Build(t.Context(), version)
		require.NoError(t, err)
		w.run(t, "ctr", "images", "import", archive)
	}
	w.startBackends(t)
	return w
}

func (w *world) startCluster(t *testing.T) {
	t.Helper()
	script := func(name string, args ...string) error {
		cmd := exec.Command(filepath.Join(w.checkout.Root, "scripts", "cluster", name), args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	require.NoError(t, script("down.sh", "--purge"))
	t.Cleanup(func() {
		require.NoError(t, script("down.sh", "--purge"))
		links, err := exec.Command("ip", "-o", "link").Output()
		require.NoError(t, err)
		require.NotRegexp(t, "urrnode0|urrpods0", string(links), "interfaces are left")
		mounts, err := os.ReadFile("/proc/mounts")
		require.NoError(t, err)
		require.NotContains(t, string(mounts), w.checkout.Shared("cluster"), "mounts are left")
		require.NoDirExists(t, w.checkout.Shared("cluster"))
	})
	require.NoError(t, script("up.sh"))
}

func (w *world) startBackends(t *testing.T) {
	t.Helper()
	children := process.NewChildren()
	w.backends = backends.New(w.layout, false, t.Logf).AddKafkaListener(w.kafkaListener(t)).WithStarter(children.Start)
	require.NoError(t, w.backends.Wipe())
	t.Cleanup(func() { require.NoError(t, w.backends.Wipe()) })
	require.NoError(t, w.backends.Start(t.Context()))
	require.NoError(t, topics.Grant(t.Context(), []string{w.layout.KafkaBroker()}, ""))
	// DynamoDB Local listens on all interfaces already.
	for _, port := range []int{platform.RedisPort, platform.PostgresPort, platform.KafkaOutsidePort, platform.SQSPort} {
		w.links[port] = forward(t, w.outside(port), w.layout.LoopbackAddr(port))
	}
}

// outside returns a backend's address for pods.
func (w *world) outside(port int) string { return fmt.Sprintf("%s:%d", node, w.layout.Port(port)) }

// backendValues returns Helm values with the addresses of the backends.
func (w *world) backendValues() []string {
	return []string{
		"--set", "global.kafka.brokers={" + w.outside(platform.KafkaOutsidePort) + "}",
		"--set", "global.kafka.sasl=SCRAM-SHA-512", "--set", "global.kafka.plain=",
		"--set", "global.redis.addresses={" + w.outside(platform.RedisPort) + "}",
		"--set", "global.dynamodb.endpoint=http://" + w.outside(platform.DynamoDBPort),
		"--set", "global.requests.endpoint=http://" + w.outside(platform.SQSPort),
	}
}

func (w *world) databaseURL(name string) string {
	return "postgres://" + platform.PostgresUser + "@" + w.outside(platform.PostgresPort) + "/" + name + "?sslmode=disable"
}

func (w *world) chart(elem ...string) string {
	return filepath.Join(append([]string{w.checkout.Root, "deploy", "helm"}, elem...)...)
}

// try runs a program with the cluster's settings and returns its output.
func (w *world) try(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	settings := filepath.Join(w.checkout.Root, "scripts", "cluster", "settings.sh")
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", `. "$1" && PATH=$2:$PATH && shift 2 && exec "$@"`, "bash",
		settings, w.helmDir, name}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &out, &stderr)
	}
	return out.String(), err
}

// run runs a program that must succeed. After a failure it shows the state of the cluster.
func (w *world) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := w.try(t, name, args...)
	w.requireNoError(t, err)
	return out
}

// requireNoError fails the test with err, if any, and shows the state of the cluster.
func (w *world) requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		pods, _ := w.try(t, "kubectl", "get", "pods,jobs", "-A", "-o", "wide")
		events, _ := w.try(t, "kubectl", "get", "events", "-A", "--sort-by=.lastTimestamp")
		logs, _ := w.try(t, "kubectl", "logs", "-n", namespace, "-l", "app.kubernetes.io/part-of=urr", "--tail=20", "--prefix")
		t.Fatalf("%v\n%s\n%s\n%s", err, pods, events, logs)
	}
}

func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return w.run(t, "kubectl", append([]string{"-n", namespace}, args...)...)
}
