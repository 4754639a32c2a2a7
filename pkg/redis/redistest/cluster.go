package redistest

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"urr.guru/pkg/processtest"
)

// variable set to "cluster" makes Open and Prefix use the cluster. It also serves to run one test
// there: URR_TEST_REDIS=cluster go test -run ….
const variable = "URR_TEST_REDIS"

// Cluster reports whether Open and Prefix use the cluster.
func Cluster() bool { return os.Getenv(variable) == "cluster" } //nolint:forbidigo // tests have no Config

// Share skips every other one of several long tests, numbered by i, on the single Redis, and the
// others on the cluster: together both kinds run each of them once.
func Share(t *testing.T, i int) {
	t.Helper()
	if Cluster() != (i%2 == 1) {
		t.Skip("runs on the other kind of Redis")
	}
}

// OnCluster runs the tests of the calling package on the cluster: all of them, in a second process,
// except the calling one and those that are named, which use servers of their own. A script that
// works on one server may fail on a cluster, where all its keys must be on one node and be declared.
func OnCluster(t *testing.T, except ...string) {
	t.Helper()
	if Cluster() {
		t.Skip("this process runs on the cluster already")
	}
	t.Parallel()
	env := map[string]string{variable: "cluster"}
	for _, name := range []string{"PATH", "TMPDIR", "URR_PORT_OFFSET"} {
		if value, set := os.LookupEnv(name); set { //nolint:forbidigo // handed on
			env[name] = value
		}
	}
	out, err := processtest.Run(t, env, arguments(t, append(except, t.Name()))...)
	if err != nil {
		t.Errorf("on the Redis Cluster: %v\n%s", err, out)
	}
}

// arguments are the flags of this run of the tests, except which of them run and how often.
func arguments(t *testing.T, except []string) []string {
	t.Helper()
	args := []string{"-test.skip=^(" + strings.Join(except, "|") + ")$"}
	for _, name := range []string{"test.parallel", "test.shuffle"} {
		args = append(args, "-"+name+"="+flag.Lookup(name).Value.String())
	}
	if end, limited := t.Deadline(); limited {
		args = append(args, "-test.timeout="+time.Until(end).String())
	}
	return args
}
