// Package backendtest returns the addresses of the development backends (`make backends` starts
// them), and free addresses for servers that a test starts.
package backendtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"urr.guru/pkg/testkit"
)

// The ports of the backends. URR_PORT_OFFSET, if set, is added to each.
const (
	redisPort    = 16379
	clusterPort  = 16380 // the first of three consecutive ports
	postgresPort = 15433 // the tests' own server
	kafkaPort    = 19092
	dynamoPort   = 18000
	sqsPort      = 19324
)

// Redis returns the host:port of the single development Redis.
func Redis(t testing.TB) (addr string) {
	t.Helper()
	return requireBackend(t, "Redis", redisPort)
}

// RedisCluster returns the host:port of each node of the three-node Redis Cluster.
func RedisCluster(t testing.TB) (addresses []string) {
	t.Helper()
	addrs := make([]string, 3)
	for i := range addrs {
		addrs[i] = requireBackend(t, "Redis Cluster", clusterPort+i)
	}
	return addrs
}

// Postgres returns the URL of a database on the tests' server; the database "postgres" exists.
func Postgres(t testing.TB, database string) (url string) {
	t.Helper()
	return "postgres://urr@" + requireBackend(t, "PostgreSQL", postgresPort) + "/" + database + "?sslmode=disable"
}

// Kafka returns the addresses of the Kafka brokers. Tests that call it are skipped under `go test
// -short`: joining a consumer group takes seconds.
func Kafka(t testing.TB) (brokers []string) {
	t.Helper()
	testkit.SkipIfShort(t, "tests that need Kafka")
	return []string{requireBackend(t, "Kafka", kafkaPort)}
}

// Dynamo returns the URL of DynamoDB Local.
func Dynamo(t testing.TB) (url string) {
	t.Helper()
	return "http://" + requireBackend(t, "DynamoDB Local", dynamoPort)
}

// SQS returns the URL of ElasticMQ, the local substitute for SQS.
func SQS(t testing.TB) (url string) {
	t.Helper()
	return "http://" + requireBackend(t, "ElasticMQ", sqsPort)
}

// reachable contains the addresses that have accepted a connection from this process, so that each
// is tried only once: PostgreSQL starts a process for every connection.
//
//nolint:gochecknoglobals // shared by the tests of a process
var reachable sync.Map

// requireBackend returns the backend's address once it accepts connections. If the backend does not
// answer within 2 s the test fails: a skipped test would look like a passed one.
func requireBackend(t testing.TB, name string, port int) string {
	t.Helper()
	addr, err := Addr(port)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := reachable.Load(addr); ok {
		return addr
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // not t.Context(), which has ended when a cleanup calls this
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatalf("%s does not answer at %s: start the backends with `make backends` (%v)", name, addr, err)
	}
	_ = conn.Close()
	reachable.Store(addr, true)
	return addr
}

// Addr returns the host:port of a backend: 127.0.0.1 and the port plus URR_PORT_OFFSET.
func Addr(port int) (string, error) {
	offset := 0
	if s := os.Getenv("URR_PORT_OFFSET"); s != "" { //nolint:forbidigo // tests have no Config
		n, err := strconv.Atoi(s)
		if err != nil {
			return "", fmt.Errorf("URR_PORT_OFFSET is %q: it must be a whole number", s)
		}
		offset = n
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+offset)), nil
}

// FreeAddr returns a free host:port for a server that a test starts. Its loopback address is
// random, so that nothing else takes the port before the server starts or restarts.
func FreeAddr(t testing.TB) (hostPort string) {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// FreePort returns a port of 127.0.0.1 that had no listener a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
