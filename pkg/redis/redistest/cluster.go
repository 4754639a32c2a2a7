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

// UsesCluster reports whether Open and Prefix use the cluster.
func UsesCluster() bool { return os.Getenv(variable) == "cluster" } //nolint:forbidigo // tests have no Config

// SkipShare divides long tests, numbered by i, between the single Redis and the cluster: it skips
// the odd ones on one and the even ones on the other, so that each test runs once.
func SkipShare(t *testing.T, i int) {
	t.Helper()
	if UsesCluster() != (i%2 == 1) {
		t.Skip("runs on the other kind of Redis")
	}
}

// OnCluster runs the tests of the calling package on the cluster: all of them, in a second process,
// except the calling one and those that are named, which use servers of their own. A script that
// works on one server may fail on a cluster, where all its keys must be on one node and be declared.
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
	out, err := processtest.Run(t, env, testFlags(t, append(except, t.Name()))...)
	if err != nil {
		t.Errorf("on the Redis Cluster: %v\n%s", err, out)
	}
}

// testFlags are the flags of this run of the tests, except which of them run and how often.
func testFlags(t *testing.T, except []string) []string {
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
