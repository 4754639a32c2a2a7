// Package backendtest says where the development backends listen, for tests that run on the real
// servers (`make backends` starts them), and where a server of the test's own may.
package backendtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// Ports of the backends before URR_PORT_OFFSET is added.
const (
	redisPort    = 16379
	clusterPort  = 16380 // and the two after it
	postgresPort = 15432
	kafkaPort    = 19092
	dynamoPort   = 18000
	sqsPort      = 19324
)

// Redis is the address of the single Redis.
func Redis(t testing.TB) string {
	t.Helper()
	return up(t, "Redis", redisPort)
}

// RedisCluster are the addresses of the three-node Redis Cluster.
func RedisCluster(t testing.TB) []string {
	t.Helper()
	addrs := make([]string, 3)
	for i := range addrs {
		addrs[i] = up(t, "Redis Cluster", clusterPort+i)
	}
	return addrs
}

// Postgres is the URL of the given database, "postgres" being the one that always exists.
func Postgres(t testing.TB, database string) string {
	t.Helper()
	return "postgres://urr@" + up(t, "PostgreSQL", postgresPort) + "/" + database + "?sslmode=disable"
}

// Kafka are the addresses of the brokers. `go test -short` skips the tests that ask for them:
// joining a consumer group takes seconds.
func Kafka(t testing.TB) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out tests that need Kafka")
	}
	return []string{up(t, "Kafka", kafkaPort)}
}

// Dynamo is the endpoint of DynamoDB Local.
func Dynamo(t testing.TB) string {
	t.Helper()
	return "http://" + up(t, "DynamoDB Local", dynamoPort)
}

// SQS is the endpoint of ElasticMQ.
func SQS(t testing.TB) string {
	t.Helper()
	return "http://" + up(t, "ElasticMQ", sqsPort)
}

// up is the backend's address, once something accepts connections there; otherwise the test ends
// here, since a skipped test would look like a passed one.
func up(t testing.TB, name string, port int) string {
	t.Helper()
	addr, err := Addr(port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // also called by cleanups
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatalf("%s does not answer at %s: start the backends with `make backends` (%v)", name, addr, err)
	}
	_ = conn.Close()
	return addr
}

// Addr is the loopback address of a port of this checkout: URR_PORT_OFFSET is added.
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
