package redistest

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"urr.guru/pkg/processtest"
)

// variable is the environment variable that makes Open and Prefix use the cluster. To run one test
// there: URR_TEST_REDIS=cluster go test -run …
const variable = "URR_TEST_REDIS"

// UsesCluster reports whether Open and Prefix use the cluster.
func UsesCluster() bool { return os.Getenv(variable) == "cluster" } //nolint:forbidigo // tests have no Config

// SkipShare divides long tests, numbered by i, between the single Redis and the cluster: it skips
// odd tests in the run on the single Redis and even tests in the run on the cluster.
func SkipShare(t *testing.T, i int) {
	t.Helper()
	if UsesCluster() != (i%2 == 1) {
		t.Skip("runs on the other kind of Redis")
	}
}

// OnCluster runs the tests of the calling package once more on the cluster, in a second process,
// without the calling test and the tests in except, which use servers of their own. A script that
// works on one server may fail on a cluster, where its keys must be declared and on one node.
func OnCluster(t *testing.T, except ...string) {
	t.Helper()
	if UsesCluster() {
		t.Skip("this process runs on the cluster already")
	}
	t.Parallel()
	env := map[string]string{variable: "cluster"}
	for _, name := range []string{"PATH", "TMPDIR", "URR_PORT_OFFSET"} {
		if value, set := os.LookupEnv(name); set { //nolint:forbidigo // handed on
			env[name] = value
		}
	}
	out, err := processtest.Run(t, env, inheritedTestFlags(t, append(except, t.Name()))...)
	if err != nil {
		t.Errorf("on the Redis Cluster: %v\n%s", err, out)
	}
}

// inheritedTestFlags returns the flags of this test run for the run on the cluster, without those
// that say which tests run and how many times.
func inheritedTestFlags(t *testing.T, except []string) []string {
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
