package platform

import (
	"fmt"
	"slices"

	"urr.guru/proto/access"
)

// Names of the platform's processes.
const (
	Gateway = "gateway"
	VWR     = "vwr"
	Queue   = "queue"
	Ticket  = "ticket"
	Payment = "payment"
	Stats   = "stats"
	Reward  = "reward"
	Ingest  = "ingest"
	Worker  = "worker"
	Sandbox = "sandbox" // the sandbox provider, which runs like a service
	PSP     = "psp"     // the fakes of real payment providers, which run in tests only
)

// Names of the services' backends, without PostgreSQL.
const (
	Redis    = "redis"
	Kafka    = "kafka"
	DynamoDB = "dynamodb"
	SQS      = "sqs"
)

// Service describes one process of the platform.
type Service struct {
	Name     string
	Package  string   // its main package, relative to the checkout
	Port     int      // base port: HTTP of the gateway and the sandbox, gRPC of others
	OpsPort  int      // base port of /healthz, /readyz and /metrics; the sandbox has them on Port
	Migrates bool     // it has a migrate command, which must run before the first start
	Database string   // its own database; empty: it has no tables
	Backends []string // other backends it connects to: Redis, Kafka, DynamoDB, SQS
	Calls    []string // services it calls by gRPC, as the option access of their RPCs says
	Needs    []string // what must be ready before it starts: the services of Calls that start earlier, and more
}

// Services returns every process of the platform, in an order in which they can start.
func Services() []Service {
	all := []Service{
		{Name: Sandbox, Package: "./scripts/cmd/sandbox", Port: 8092, OpsPort: 8092},
		{Name: Ticket, Package: "./services/ticket", Port: 8086, OpsPort: 8087, Migrates: true, Database: "urr_ticket",
			Backends: []string{Kafka}},
		{Name: Stats, Package: "./services/stats", Port: 8090, OpsPort: 8091, Migrates: true, Database: "urr_stats",
			Backends: []string{Kafka}},
		{Name: Reward, Package: "./services/reward", Port: 8094, OpsPort: 8095, Migrates: true, Database: "urr_reward",
			Backends: []string{Kafka}, Needs: []string{Sandbox}},
		{Name: Payment, Package: "./services/payment", Port: 8088, OpsPort: 8089, Migrates: true, Database: "urr_payment",
			Backends: []string{Kafka}, Needs: []string{Sandbox}},
		{Name: Queue, Package: "./services/queue", Port: 8084, OpsPort: 8085, Migrates: true,
			Backends: []string{Redis, Kafka, SQS}},
		{Name: VWR, Package: "./services/vwr", Port: 8082, OpsPort: 8083, Migrates: true, Backends: []string{DynamoDB}},
		{Name: Ingest, Package: "./services/ingest", Port: 8096, OpsPort: 8097, Migrates: true, Backends: []string{DynamoDB, SQS}},
		{Name: Worker, Package: "./services/worker", Port: 8098, OpsPort: 8099, Migrates: true, Backends: []string{DynamoDB, SQS, Kafka},
			Needs: []string{Ingest, Sandbox}},
		{Name: Gateway, Package: "./services/gateway", Port: 8080, OpsPort: 8081, Migrates: true, Backends: []string{Redis, Kafka}},
	}
	calls := access.Calls()
	started := map[string]bool{}
	for i, s := range all {
		all[i].Calls = calls[s.Name]
		for _, callee := range calls[s.Name] {
			// The ingest service calls the worker service but starts first, so it cannot wait for it.
			if started[callee] {
				all[i].Needs = append(all[i].Needs, callee)
			}
		}
		started[s.Name] = true
	}
	return all
}

// FakeProviders describes the process with the fakes of payment providers. Stripe's fake listens on
// Port, and that of Toss Payments on OpsPort.
func FakeProviders() Service {
	return Service{Name: PSP, Package: "./scripts/cmd/psp", Port: 8100, OpsPort: 8101}
}

// Lookup returns the description of the service with this name.
func Lookup(name string) (Service, error) {
	all := Services()
	i := slices.IndexFunc(all, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, fmt.Errorf("there is no service %q: %v", name, Names())
	}
	return all[i], nil
}

// Names returns the names of the services, in the order in which they start.
func Names() []string {
	var names []string
	for _, s := range Services() {
		names = append(names, s.Name)
	}
	return names
}

// Callers returns the names of the services that call callee by gRPC.
func Callers(callee string) []string { return access.Callers(access.Calls(), callee) }

// mailPort is the base port at which the sandbox accepts e-mails.
const mailPort = 8102

// Base ports of the backends. RedisClusterPort is the first of three. TestPostgresPort belongs to
// the server on which tests create databases.
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

// RedisClusterNodes is the number of nodes of the Redis Cluster that tests use.
const RedisClusterNodes = 3

// PostgresUser owns every database of the development server, which needs no password on loopback.
const PostgresUser = "urr"

// Databases returns the names of the databases to create: one per service with tables.
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

// ServerURL returns the URL of a database on the PostgreSQL server with the given base port.
func (l Layout) ServerURL(base int, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", PostgresUser, l.LoopbackAddr(base), database)
}

func (l Layout) KafkaBroker() string { return l.LoopbackAddr(KafkaPort) }

func (l Layout) RedisAddr() string { return l.LoopbackAddr(RedisPort) }

// RedisClusterAddrs returns the addresses of the three-node Redis Cluster that tests use.
func (l Layout) RedisClusterAddrs() []string {
	addrs := make([]string, RedisClusterNodes)
	for i := range addrs {
		addrs[i] = l.LoopbackAddr(RedisClusterPort + i)
	}
	return addrs
}

func (l Layout) DynamoDBEndpoint() string { return "http://" + l.LoopbackAddr(DynamoDBPort) }

func (l Layout) SQSEndpoint() string { return "http://" + l.LoopbackAddr(SQSPort) }
