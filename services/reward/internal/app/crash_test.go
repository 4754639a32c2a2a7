//go:build failpoint

package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/app"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/sandbox"
)

func TestMain(m *testing.M) {
	processtest.Main(m, func() int { return lifecycle.Main("reward", app.Run, app.Migrate) })
}

// crashTest is a service whose replicas are killed and suspended, with its database, its provider,
// and one due reward of 100 points.
type crashTest struct {
	t        *testing.T
	env      map[string]string
	ledger   *sandbox.Ledger
	provider *sandbox.Server
	calls    *gate
	pool     *pgxpool.Pool
	id       int64
	key      string
}

func newCrashTest(t *testing.T) *crashTest {
	t.Helper()
	ledger, err := sandbox.Open(filepath.Join(t.TempDir(), "ledger"), time.Now)
	require.NoError(t, err)
	provider := sandbox.NewServer(t.Context(), ledger, sandbox.Faults{}, slog.New(slog.DiscardHandler))
	calls := &gate{next: provider}
	server := httptest.NewServer(calls)
	t.Cleanup(func() { server.Close(); provider.Wait(); _ = ledger.Close() })
	prefix := kafkatest.Name("crash") + "."
	t.Cleanup(func() {
		topics := []string{prefix + kafka.RedriveTopic(campaign.Group)}
		for _, topic := range []string{"reward-events", "request-events"} {
			topics = append(topics, prefix+topic, prefix+topic+kafka.DLQSuffix)
		}
		kafkatest.Delete(t, topics...)
	})
	c := &crashTest{t: t, ledger: ledger, provider: provider, calls: calls, env: map[string]string{
		"DATABASE_URL":  postgrestest.URL(t, postgres.Migrations...).Reveal(),
		"KAFKA_BROKERS": kafkatest.Config(t).Brokers[0], "KAFKA_TOPIC_PREFIX": prefix, "KAFKA_GROUP_PREFIX": prefix,
		"RPC_ACCEPT": "gateway:gateway-reward-key-of-32-bytes!!!,vwr:vwr-reward-key-of-at-least-32-bytes", "DRAIN": "0s", "RPC_PLAIN": "development",
		"REWARD_POINT_URL": server.URL, "REWARD_COUPON_URL": server.URL, "REWARD_RETRY_MIN": "50ms", "REWARD_RETRY_MAX": "200ms",
	}}
	maps.Copy(c.env, kafkatest.Variables())
	c.pool, err = pgxpool.New(t.Context(), c.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(c.pool.Close)
	c.draw()
	return c
}

func (c *crashTest) draw() {
	c.t.Helper()
	campaigns := campaign.NewService(postgres.NewCampaigns(postgres.New(c.pool, postgres.Options{})), nil, func() {})
	_, _, err := campaigns.Create(c.t.Context(), campaign.Campaign{
		EventID: "c", Title: "Draw", Kind: campaign.Random, OpensAt: time.Now().AddDate(-1, 0, 0), ClosesAt: time.Now().AddDate(1, 0, 0),
		Prizes: []campaign.Prize{{Name: "points", Reward: campaign.Reward{Kind: payout.Point, Value: 100}, Weight: 1}},
	}, nil)
	require.NoError(c.t, err)
	e, err := campaigns.Draw(c.t.Context(), "c", "ann", "")
	require.NoError(c.t, err)
	c.id, c.key = e.Rewards[0].ID, e.Rewards[0].IdempotencyKey
}

// replica is a running process.
type replica struct {
	*processtest.Process

	ops string
}

// start starts a replica with settings and failpoints of its own. The end of the test kills it.
func (c *crashTest) start(settings map[string]string, failpoints string) replica {
	c.t.Helper()
	env := maps.Clone(c.env)
	maps.Copy(env, settings)
	ops := backendtest.FreeAddr(c.t)
	env["GRPC_ADDR"], env["OPS_ADDR"], env[failpoint.Variable] = backendtest.FreeAddr(c.t), ops, failpoints
	p := processtest.Start(c.t, env, "serve")
	c.t.Cleanup(p.Kill)
	return replica{Process: p, ops: ops}
}

// metric waits until a metric of a replica has a value; start is the beginning of its line.
func (c *crashTest) metric(r replica, start string, value int) {
	c.t.Helper()
	testkit.UntilNoError(c.t, func() error {
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+r.ops+"/metrics", http.NoBody)
		require.NoError(c.t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(body), fmt.Sprintf("\n%s %d\n", start, value)) {
			err = fmt.Errorf("%s is not %d", start, value)
		}
		return err
	})
}

func (c *crashTest) get() payout.Allocation {
	c.t.Helper()
	a, _, err := c.operators().Get(c.t.Context(), c.id)
	require.NoError(c.t, err)
	return a
}

func (c *crashTest) operators() postgres.Operators {
	return postgres.Operators{Database: postgres.New(c.pool, postgres.Options{}), WakePayouts: func() {}}
}

func (c *crashTest) until(s payout.Status) {
	c.t.Helper()
	testkit.Until(c.t, func() bool { return c.get().Status == s }, "the reward to be %s", s)
}

// lapse ends the lease of a stopped replica, so that the test need not wait for its end.
func (c *crashTest) lapse() {
	c.t.Helper()
	tag, err := c.pool.Exec(c.t.Context(), `UPDATE event_reward_allocation SET lease_until = now() - interval '1 s' WHERE reward_status = 'PROCESSING'`)
	require.NoError(c.t, err)
	require.EqualValues(c.t, 1, tag.RowsAffected())
}

// failpointFile is made by a process at a failpoint, where it waits until the file is removed.
type failpointFile string

func newFailpointFile(t *testing.T) failpointFile {
	t.Helper()
	return failpointFile(filepath.Join(t.TempDir(), "reached"))
}

func (p failpointFile) reached(t *testing.T) {
	t.Helper()
	testkit.UntilNoError(t, func() error { _, err := os.Stat(string(p)); return err }, "a process to reach the failpoint")
}

func (p failpointFile) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(string(p)))
}

// gate passes calls to the provider and holds the payments for which a test has asked.
type gate struct {
	next http.Handler

	mu    sync.Mutex
	holds []held
}

type held struct{ arrived, leave chan struct{} }

// hold stops the next payment before the provider sees it, until release is called or the test
// ends.
func (g *gate) hold(t *testing.T) (arrived <-chan struct{}, release func()) {
	t.Helper()
	h := held{arrived: make(chan struct{}), leave: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = append(g.holds, h)
	release = sync.OnceFunc(func() { close(h.leave) })
	t.Cleanup(release)
	return h.arrived, release
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/v1/payouts" {
		if h, ok := g.take(); ok {
			close(h.arrived)
			<-h.leave
		}
	}
	// The provider pays even if its caller has left.
	g.next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}

func (g *gate) take() (h held, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) == 0 {
		return held{}, false
	}
	h, g.holds = g.holds[0], g.holds[1:]
	return h, true
}
