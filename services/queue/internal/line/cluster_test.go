package line_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/errs"
	pkgredis "urr.guru/pkg/redis"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
)

// master is one of the three Redis servers of this test's cluster. The test may stop it.
type master struct {
	t                   *testing.T
	addr                string
	cmd                 *exec.Cmd
	firstSlot, lastSlot int // the range of hash slots that it serves
}

func (m *master) do(args ...any) *goredis.Cmd {
	m.t.Helper()
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: m.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	return client.Do(ctx, args...)
}

func (m *master) signal(s syscall.Signal) {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Signal(s))
}

func startCluster(t *testing.T) []*master {
	t.Helper()
	testkit.SkipIfShort(t, "tests that start servers")
	const slots = 16384
	masters := make([]*master, 3)
	for i := range masters {
		m := &master{t: t, addr: backendtest.FreeAddr(t), firstSlot: i * slots / 3, lastSlot: (i+1)*slots/3 - 1}
		host, port, err := net.SplitHostPort(m.addr)
		require.NoError(t, err)
		_, bus, err := net.SplitHostPort(backendtest.FreeAddr(t))
		require.NoError(t, err)
		//nolint:gosec // free ports; not the test's context: the server is killed by hand, last of all
		m.cmd = exec.CommandContext(context.Background(), "redis-server", "--port", port, "--bind", host, "--dir", t.TempDir(), "--save", "",
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-announce-ip", host, "--bind-source-addr", host, "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
		require.NoError(t, m.cmd.Start(), "redis-server must be installed, as `make backends` does")
		t.Cleanup(func() {
			_ = m.cmd.Process.Kill()
			_ = m.cmd.Wait()
		})
		testkit.UntilNoError(t, func() error { return m.do("PING").Err() }, "redis-server at %s", m.addr)
		require.NoError(t, m.do("CLUSTER", "ADDSLOTSRANGE", m.firstSlot, m.lastSlot).Err())
		require.NoError(t, m.do("CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		for _, other := range masters[:i] { // connect every pair, since gossip is slow
			require.NoError(t, other.do("CLUSTER", "MEET", host, port, bus).Err())
		}
		masters[i] = m
	}
	for _, m := range masters {
		testkit.Until(t, func() bool {
			info, err := m.do("CLUSTER", "INFO").Text()
			return err == nil && containsAll(info, "cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:3")
		}, "%s knows the others", m.addr)
	}
	return masters
}

// eventsOn returns n event ids whose lines are on this master.
func (m *master) eventsOn(n int) []string {
	m.t.Helper()
	var out []string
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprintf("ev-%d", i)
		slot, err := m.do("CLUSTER", "KEYSLOT", "{"+id+"}").Int()
		require.NoError(m.t, err)
		if m.firstSlot <= slot && slot <= m.lastSlot {
			out = append(out, id)
		}
	}
	return out
}

// If one master of a cluster hangs, only calls and ticks of events on it fail.
func TestHangingClusterNodeFailsOnlyItsEvents(t *testing.T) {
	masters := startCluster(t)
	w := newTestEnv(t)
	client, err := pkgredis.Open(t.Context(), pkgredis.Config{Addrs: []string{masters[0].addr, masters[1].addr, masters[2].addr}, PoolSize: 8})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	w.client = client
	r := w.replica()
	stuck, healthy := masters[1].eventsOn(20), append(masters[0].eventsOn(1), masters[2].eventsOn(1)...)
	for _, id := range append(stuck, healthy...) {
		r.open(t, id)
		require.NoError(t, r.check(t.Context(), id, "in").Err)
		require.NoError(t, r.check(t.Context(), id, "w").Err)
	}
	masters[1].signal(syscall.SIGSTOP)
	var load sync.WaitGroup
	for i := range 20 { // more calls than the client has connections
		for _, id := range stuck[:2] {
			load.Go(func() { _ = r.check(t.Context(), id, "u-"+strconv.Itoa(i)) })
		}
	}
	reqs := requests(stuck[0], "w")
	for _, id := range healthy {
		reqs = append(reqs, requests(id, "w", "in")...)
	}
	// On a slow machine a call may time out, so it is repeated. If calls waited for the hanging
	// master, no attempt would succeed.
	answered := func(ask func(context.Context, []line.PlaceRequest) []line.PlaceAnswer) func() error {
		return func() error {
			w.clock.Advance(time.Second)
			out := ask(t.Context(), reqs)
			if !errors.Is(out[0].Err, errs.ErrUnavailable) {
				return fmt.Errorf("the master that hangs answered: %w", out[0].Err)
			}
			return errors.Join(failures(out[1:])...)
		}
	}
	testkit.UntilNoError(t, answered(r.service.Status), "status of the others")
	testkit.UntilNoError(t, answered(r.service.Check), "check of the others")
	for _, id := range healthy {
		slot, err := client.HGet(t.Context(), "{"+id+"}:slot", "in").Result()
		require.NoError(t, err)
		own := line.SlotQuery{EventID: id, UserID: "in", SlotID: slot[:36], Epoch: epochOf(t, r, id)}
		hanging := own
		hanging.EventID = stuck[0]
		testkit.Until(t, func() bool {
			v := r.service.VerifySlots(t.Context(), []line.SlotQuery{hanging, own})
			return errors.Is(v[0].Err, errs.ErrUnavailable) && v[1].Active
		}, "the slot of %s", id)
		testkit.UntilNoError(t, func() error { return r.service.Leave(t.Context(), id, "in", &line.EntryClaims{SlotID: slot[:36]}) })
		testkit.Until(t, func() bool {
			w.clock.Advance(time.Second)
			r.worker.Tick(t.Context())
			return r.service.Status(t.Context(), requests(id, "w"))[0].Place.Status == line.StatusActive
		}, "the next of %s", id)
	}
	load.Wait()
	masters[1].signal(syscall.SIGCONT)
	testkit.Until(t, func() bool { return r.check(t.Context(), stuck[0], "w").Err == nil }, "it works again")
}

func failures(answers []line.PlaceAnswer) []error {
	out := make([]error, len(answers))
	for i, a := range answers {
		out[i] = a.Err
	}
	return out
}
