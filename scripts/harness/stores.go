package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/sandbox"
	rewards "urr.guru/services/reward/sandbox"
)

// faultsLimit is the time limit of the request that sets the provider's faults.
const faultsLimit = time.Minute

// Wiring returns the direct addresses of the run's stores and services, without the proxies of
// Options.Links, for audits.
func (p *Platform) Wiring() platform.Wiring {
	w := p.workspace.wiring()
	if len(p.opts.Providers) > 0 {
		w.Providers = p.opts.Providers
	}
	return w
}

// DB returns a direct connection to a service's database, without the proxy of Options.Links.
func (p *Platform) DB(service string) *pgxpool.Pool {
	p.tb.Helper()
	s, err := platform.Lookup(service)
	if err != nil || s.Database == "" {
		p.tb.Fatalf("harness: %s has no database (%v)", service, err)
	}
	cfg, err := pgxpool.ParseConfig(p.Wiring().DatabaseURL(s))
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(p.tb.Context()), cfg)
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	p.tb.Cleanup(pool.Close)
	return pool
}

func (p *Platform) Redis() *redis.Client {
	p.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.Wiring().RedisAddrs[0], DB: p.Wiring().RedisDB})
	p.tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (p *Platform) Brokers() []string { return p.Wiring().KafkaBrokers }

// Records reads all records of a topic so far, in the order of each partition. The topic is named
// without the run's prefix.
func (p *Platform) Records(ctx context.Context, topic string) ([]*kgo.Record, error) {
	return topics.Read(ctx, p.Brokers(), p.Wiring().KafkaPrefix+topic)
}

func (p *Platform) Ledger(ctx context.Context) (charges []sandbox.Charge, refunds []sandbox.Refund, err error) {
	raw, err := fetch.Get(ctx, "http://"+p.Service(platform.Sandbox).Addr(0)+"/v1/ledger")
	if err != nil {
		return nil, nil, err
	}
	var ledger struct {
		Charges []sandbox.Charge `json:"charges"`
		Refunds []sandbox.Refund `json:"refunds"`
	}
	if err := json.Unmarshal(raw, &ledger); err != nil {
		return nil, nil, fmt.Errorf("read ledger: %w", err)
	}
	return ledger.Charges, ledger.Refunds, nil
}

// SetRewardFaults sets the faults that the sandbox provider of points and coupons injects. It also
// works while the test cleans up.
func (p *Platform) SetRewardFaults(f rewards.Faults) {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tb.Context()), faultsLimit)
	defer cancel()
	if err := (rewards.Client{URL: p.Wiring().RewardProviderURL()}).SetFaults(ctx, f); err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
}

// Dial connects to replica i of the service callee as caller does, with its certificate and the RPC key of this pair.
func (p *Platform) Dial(caller, callee string, i int, opts ...rpc.DialOption) *rpc.Conn {
	p.tb.Helper()
	key, ok := p.workspace.secrets.RPC[caller+">"+callee]
	if !ok {
		p.tb.Fatalf("harness: %s does not call %s", caller, callee)
	}
	identity, err := rpc.NewIdentity(caller, p.workspace.secrets.TLS(caller))
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	conn, err := rpc.Dial(caller, callee, rpc.Peer{Addr: p.Service(callee).Addr(i), Key: config.Secret(key)}, append(opts, rpc.WithIdentity(identity))...)
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	p.tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Eventually repeats check until it succeeds. If it never does, the test fails with the last error.
func (p *Platform) Eventually(check func(context.Context) error) {
	p.tb.Helper()
	ctx, cancel := testkit.Context(p.tb)
	defer cancel()
	testkit.UntilNoError(p.tb, func() error { return check(ctx) })
}
