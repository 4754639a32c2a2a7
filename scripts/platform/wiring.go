package platform

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"urr.guru/pkg/config"
)

// Wiring has the addresses and secrets that services get in environment variables. Layout.Wiring
// returns that of the development run. Each run of the harness has another one.
type Wiring struct {
	Secrets Secrets
	// Target returns the gRPC target of a service: host:port, or a dns:// target with all replicas.
	Target func(service string) string
	// DatabaseURL returns the URL of a service's own database.
	DatabaseURL func(Service) string

	RedisAddrs       []string
	RedisDB          int // number of the database, if Redis is no cluster
	KafkaBrokers     []string
	KafkaPrefix      string // prefix of topic and group names
	AWSRegion        string
	DynamoDBEndpoint string
	DynamoDBPrefix   string
	SQSEndpoint      string
	RequestsQueue    string // name of the SQS queue of requests, without .fifo
	SandboxURL       string
	SandboxPage      string // the sandbox's address in browsers; empty: it offers no payment page
	GatewayURL       string // the gateway's address in browsers
	WebhookURL       string // where providers send webhooks; each adds its name
	Ledger           string // the sandbox's ledger file
	MailAddr         string // where the sandbox accepts e-mails; empty: the ticket service sends none
	MailDir          string // where the sandbox keeps e-mails
	// Providers are the names of the payment service's providers, the default one first.
	Providers          []string
	StripeURL, TossURL string // of the fake providers
	PayHost            string // the gateway's host name, in browsers, for the page of Toss Payments
	// OIDC: users sign in at the sandbox's identity provider, instead of by the gateway's DEV_LOGIN.
	OIDC bool
	// Strict is the fraction of AWS's reads and writes that a partition of DynamoDB accepts, by way of
	// the sandbox; empty: there is no limit.
	Strict string
}

// ListenAddrs has the addresses at which one replica of a service listens.
type ListenAddrs struct {
	Addr string // HTTP of the gateway and the sandbox, gRPC of all others
	Ops  string // /healthz, /readyz and /metrics
}

// Wiring returns the wiring of the development run, which uses the checkout's loopback ports.
func (l Layout) Wiring(secrets Secrets) Wiring {
	addr := func(name string) string {
		s, err := Lookup(name)
		if err != nil {
			panic(err) // names are constants of this package
		}
		return l.LoopbackAddr(s.Port)
	}
	return Wiring{
		Secrets:          secrets,
		Target:           addr,
		DatabaseURL:      func(s Service) string { return l.DatabaseURL(s.Database) },
		RedisAddrs:       []string{l.RedisAddr()},
		KafkaBrokers:     []string{l.KafkaBroker()},
		AWSRegion:        "ap-northeast-2",
		DynamoDBEndpoint: l.DynamoDBEndpoint(),
		DynamoDBPrefix:   "urr",
		SQSEndpoint:      l.SQSEndpoint(),
		RequestsQueue:    "urr-requests",
		SandboxURL:       "http://" + addr(Sandbox),
		SandboxPage:      "http://" + addr(Sandbox),
		GatewayURL:       "http://" + addr(Gateway),
		WebhookURL:       "http://" + addr(Gateway) + "/api/v1/payments/webhooks/",
		Providers:        []string{Sandbox},
		StripeURL:        "http://" + l.LoopbackAddr(FakeProviders().Port),
		TossURL:          "http://" + l.LoopbackAddr(FakeProviders().OpsPort),
		PayHost:          strings.Replace(addr(Gateway), "127.0.0.1", "localhost", 1),
		Ledger:           l.State("data", "sandbox", "ledger.jsonl"),
		MailAddr:         l.LoopbackAddr(mailPort),
		MailDir:          l.State("mail"),
		OIDC:             os.Getenv("OIDC") == "1",
		Strict:           os.Getenv("STRICT"),
	}
}

// GatewayURL returns the gateway's base URL in the development run, without a slash at the end.
func (l Layout) GatewayURL() string { return l.Wiring(Secrets{}).GatewayURL }

// Listen returns the listen addresses of a service in the development run.
func (l Layout) Listen(s Service) ListenAddrs {
	return ListenAddrs{Addr: l.LoopbackAddr(s.Port), Ops: l.LoopbackAddr(s.OpsPort)}
}

func (w Wiring) BeaconURL() string { return w.SandboxURL + "/beacon" }

func (w Wiring) RewardProviderURL() string { return w.SandboxURL + "/rewards" }

// Env returns the environment variables of one replica of a service as NAME=value, sorted. It
// includes only those that the service reads, so that no service can depend on another's secret.
func (w Wiring) Env(s Service, at ListenAddrs) []string {
	env := map[string]string{}
	switch s.Name {
	case Sandbox:
		env["HTTP_ADDR"] = at.Addr
		env["WEBHOOK_URL"] = w.WebhookURL + Sandbox
		env["LEDGER_FILE"] = w.Ledger
	case PSP:
		w.addFakes(env, at)
	default:
		w.addCommonVariables(env, s, at)
		w.addBackendVariables(env, s)
	}
	w.addOwnVariables(env, s)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func (w Wiring) addCommonVariables(env map[string]string, s Service, at ListenAddrs) {
	env["OPS_ADDR"] = at.Ops
	env["DRAIN"] = "200ms" // a short time, since no load balancer must notice the shutdown
	env["PPROF"] = "true"  // the port is reachable from this machine only
	if s.Name == Gateway {
		env["HTTP_ADDR"] = at.Addr
	} else {
		env["GRPC_ADDR"] = at.Addr
	}
	tls := w.Secrets.TLS(s.Name)
	env["RPC_TLS"] = config.SecretContents(&tls)["RPC_TLS"].Reveal()
	var accept []string
	for _, caller := range Callers(s.Name) {
		accept = append(accept, caller+":"+w.Secrets.RPC[caller+">"+s.Name])
	}
	if len(accept) > 0 {
		env["RPC_ACCEPT"] = strings.Join(accept, ",")
	}
	for _, callee := range s.Calls {
		prefix := strings.ToUpper(callee)
		env[prefix+"_ADDR"] = w.Target(callee)
		env[prefix+"_RPC_KEY"] = w.Secrets.RPC[s.Name+">"+callee]
	}
	if s.Database != "" {
		env["DATABASE_URL"] = w.DatabaseURL(s)
	}
}

// addBackendVariables sets the variables that have the addresses of a service's backends.
func (w Wiring) addBackendVariables(env map[string]string, s Service) {
	for _, backend := range s.Backends {
		switch backend {
		case Redis:
			env["REDIS_ADDRS"] = strings.Join(w.RedisAddrs, ",")
			if w.RedisDB != 0 {
				env["REDIS_DB"] = strconv.Itoa(w.RedisDB)
			}
		case Kafka:
			env["KAFKA_BROKERS"] = strings.Join(w.KafkaBrokers, ",")
			env["KAFKA_REPLICATION_FACTOR"], env["KAFKA_PLAIN"] = "1", "development"
			w.addEventKeys(env, s)
			if w.KafkaPrefix != "" {
				env["KAFKA_TOPIC_PREFIX"], env["KAFKA_GROUP_PREFIX"] = w.KafkaPrefix, w.KafkaPrefix
			}
		case DynamoDB:
			w.addAWSAccess(env)
			env["DYNAMODB_ENDPOINT"], env["DYNAMODB_PREFIX"] = w.DynamoDBEndpoint, w.DynamoDBPrefix
			if w.Strict != "" {
				env["DYNAMODB_ENDPOINT"] = w.SandboxURL + "/dynamodb"
			}
		case SQS:
			w.addAWSAccess(env)
			env["SQS_ENDPOINT"] = w.SQSEndpoint
		default:
			panic(fmt.Sprintf("platform: %s has an unknown backend %q", s.Name, backend))
		}
	}
}

// addEventKeys sets the key that signs the records of a service, and the public keys of all services.
func (w Wiring) addEventKeys(env map[string]string, s Service) {
	if key, ok := w.Secrets.Events[s.Name]; ok {
		env["EVENT_SIGNING_KEY"] = key.Private
	}
	var public []string
	for _, service := range slices.Sorted(maps.Keys(w.Secrets.Events)) {
		public = append(public, service+":"+w.Secrets.Events[service].Public)
	}
	env["EVENT_PUBLIC_KEYS"] = strings.Join(public, ",")
}

// addAWSAccess sets the region and credentials that the AWS SDK requires. Any will do, but DynamoDB
// Local keeps separate tables for each region and access key.
func (w Wiring) addAWSAccess(env map[string]string) {
	env["AWS_REGION"] = w.AWSRegion
	env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = "development", "development"
}

// addOwnVariables sets the variables that only one service reads: secrets and development settings.
func (w Wiring) addOwnVariables(env map[string]string, s Service) {
	switch s.Name {
	case Gateway:
		env["DEV_LOGIN"], env["SECURE_COOKIES"] = strconv.FormatBool(!w.OIDC), "false"
		// Simulated visitors run on this machine and send their own addresses.
		env["TRUSTED_PROXIES"] = "127.0.0.1"
		// They use the same processors as the gateway, so slow polls do not mean too many requests.
		env["POLL_MAX_WAIT"] = "0s"
		env["SESSION_SECRET"], env["VISITOR_SECRET"] = w.Secrets.Session, w.Secrets.Visitor
		env["VWR_TOKEN_SECRET"], env["VWR_TICKET_SECRET"] = w.Secrets.VWRToken, w.Secrets.VWRTicket
		env["QUEUE_ENTRY_TOKEN_SECRET"] = w.Secrets.EntryToken
		if w.OIDC {
			env["OIDC_ISSUER"], env["PUBLIC_URL"] = w.SandboxURL+"/oidc", w.GatewayURL
			env["OIDC_CLIENT_ID"], env["OIDC_CLIENT_SECRET"] = oidcClient, w.Secrets.OIDCClient
		}
		w.addPayHost(env)
	case VWR:
		env["VWR_TOKEN_SECRET"], env["VWR_TICKET_SECRET"] = w.Secrets.VWRToken, w.Secrets.VWRTicket
		env["VWR_LOBBY_LEAD"] = "80s" // the default is several minutes
		w.addDrawKeys(env)
		env["DRAW_RECEIPT_KEYS"] = w.Secrets.DrawReceipt
	case Queue:
		env["QUEUE_ENTRY_TOKEN_SECRET"], env["QUEUE_TICKET_SECRET"] = w.Secrets.EntryToken, w.Secrets.QueueTicket
	case Ticket:
		env["TICKET_CODE_KEY"], env["WEBHOOKS"] = w.Secrets.TicketCode, "development"
		if w.MailAddr != "" {
			env["SMTP_ADDR"], env["SMTP_TLS"] = w.MailAddr, "none"
			env["SMTP_FROM"], env["PUBLIC_URL"] = "URR <tickets@urr.example>", w.GatewayURL
		}
		if slices.Contains(w.Providers, Toss) {
			env["HOLD_MAX_EXTENSION"] = "45m" // Toss can charge until a quarter of an hour after the payer's page
		}
	case Payment:
		w.addProviders(env)
	case Reward:
		// The sandbox also pays points and coupons. These times are shorter than the defaults of minutes.
		env["REWARD_POINT_URL"], env["REWARD_COUPON_URL"] = w.RewardProviderURL(), w.RewardProviderURL()
		env["REWARD_CALL_TIMEOUT"], env["REWARD_LEASE"] = "2s", "5s"
		env["REWARD_RETRY_MIN"], env["REWARD_RETRY_MAX"], env["REWARD_SETTLE_TIME"] = "1s", "5s", "10s"
	case Ingest:
		env["REQUESTS_QUEUE"], env["DRAW_RECEIPT_KEYS"] = w.RequestsQueue, w.Secrets.DrawReceipt
		// These times are shorter than the defaults of minutes. Still, a root must be public for a
		// minute.
		env["INGEST_DRAW_MIN_DELAY"], env["INGEST_DRAW_LEAD"] = "1s", "5s"
	case Worker:
		w.addDrawKeys(env)
		env["REQUESTS_QUEUE"], env["WORKER_DRAW_AFTER"] = w.RequestsQueue, "5s"
	case Sandbox:
		env["SANDBOX_WEBHOOK_SECRET"] = w.Secrets.SandboxWebhook
		env["SANDBOX_BEACON_SECRET"] = w.Secrets.Beacon
		if w.MailAddr != "" {
			env["SANDBOX_MAIL_ADDR"], env["SANDBOX_MAIL_DIR"] = w.MailAddr, w.MailDir
		}
		if w.Strict != "" {
			env["SANDBOX_DYNAMODB_ENDPOINT"], env["SANDBOX_DYNAMODB_FRACTION"] = w.DynamoDBEndpoint, w.Strict
		}
		if w.OIDC {
			env["SANDBOX_OIDC_ISSUER"], env["SANDBOX_OIDC_CLIENT_URL"] = w.SandboxURL+"/oidc", w.GatewayURL
			env["SANDBOX_OIDC_CLIENT_ID"], env["SANDBOX_OIDC_CLIENT_SECRET"] = oidcClient, w.Secrets.OIDCClient
		}
	}
}

// oidcClient is the gateway's client id at the sandbox's identity provider.
const oidcClient = "urr"

// addDrawKeys sets what a service needs for draws: the operator's keys and the URL of the beacon.
func (w Wiring) addDrawKeys(env map[string]string) {
	env["DRAW_SECRET"], env["DRAW_STATEMENT_KEYS"] = w.Secrets.Draw, w.Secrets.DrawStatement
	env["BEACON_URLS"] = w.BeaconURL()
}
