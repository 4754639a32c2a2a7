package platform

import "fmt"

// Base ports of the backends. RedisCluster is the first of three. TestPostgres is the server on which
// tests make databases of their own.
const (
	RedisPort           = 16379
	RedisClusterPort    = 16380
	PostgresPort        = 15432
	TestPostgresPort    = 15433
	KafkaPort           = 19092
	KafkaControllerPort = 19093
	KafkaOutsidePort    = 19094 // for clients that reach this machine by a non-loopback address
	DynamoDBPort        = 18000
	SQSPort             = 19324
)

// RedisClusterNodes is the size of the Redis Cluster that tests use.
const RedisClusterNodes = 3

// PostgresUser owns every database of the development server, which trusts loopback connections.
const PostgresUser = "urr"

// Databases are created when PostgreSQL starts: one per service that has tables.
func Databases() []string {
	var names []string
	for _, s := range Services() {
		if s.Database != "" {
			names = append(names, s.Database)
		}
	}
	return names
}

func (l Layout) DatabaseURL(database string) string { return l.ServerURL(PostgresPort, database) }

// ServerURL is the address of a database on the server with a base port.
func (l Layout) ServerURL(base int, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", PostgresUser, l.Loopback(base), database)
}

func (l Layout) KafkaBroker() string { return l.Loopback(KafkaPort) }

func (l Layout) RedisAddr() string { return l.Loopback(RedisPort) }

// RedisClusterAddrs are the addresses of the three-node cluster that tests use.
func (l Layout) RedisClusterAddrs() []string {
	addrs := make([]string, RedisClusterNodes)
	for i := range addrs {
		addrs[i] = l.Loopback(RedisClusterPort + i)
	}
	return addrs
}

func (l Layout) DynamoDBEndpoint() string { return "http://" + l.Loopback(DynamoDBPort) }

func (l Layout) SQSEndpoint() string { return "http://" + l.Loopback(SQSPort) }
