package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
	paymentreplica "urr.guru/services/payment/replicatest"
)

// TestMoneyUnderFaults lets people buy, return and use tickets while everything fails that can.
// Then it compares the payment and ticket databases with the provider, to the smallest unit. A seed
// repeats the acts of each person and the faults, but not their order.
func TestMoneyUnderFaults(t *testing.T) {
	parallelIfShort(t)
	seed, _ := seededRandom(t)
	runs, acts := 2, 80
	if *full {
		acquireBackends(t)
		runs, acts = 60, 300
	}
	for i := range runs {
		t.Run(fmt.Sprint("run ", i), func(t *testing.T) {
			parallelIfShort(t)
			newMoney(t, seed+uint64(i)).play(acts) //nolint:gosec // a small number
		})
	}
}

const moneyActors = 4

// play lets people act, ends the faults, waits until nothing is in progress, and checks the books.
func (m *money) play(acts int) {
	m.t.Helper()
	m.openPlan()
	m.openSales(rand.New(rand.NewPCG(m.seed, 3<<32))) //nolint:gosec // repeatable
	m.faults.Store(true)
	m.provider.setFaults(false)
	ctx, cancel := testkit.Context(m.t)
	defer cancel()
	background, stop := context.WithCancel(ctx)
	var loops, people sync.WaitGroup
	for _, loop := range m.loops() {
		loops.Go(func() {
			for background.Err() == nil {
				loop(ctx)
				pause(background, 4*time.Millisecond)
			}
		})
	}
	for i := range moneyActors {
		a := &moneyActor{money: m, name: fmt.Sprint("actor", i), rng: rand.New(rand.NewPCG(m.seed, 4<<32+uint64(i)))} //nolint:gosec // repeatable
		people.Go(func() {
			for range acts / moneyActors {
				a.act(ctx)
			}
		})
	}
	people.Wait()
	stop()
	loops.Wait()
	m.calm(ctx)
	m.check(ctx)
}

// loops returns the functions that run repeatedly in the background.
func (m *money) loops() []func(context.Context) {
	loops := []func(context.Context){
		func(ctx context.Context) { m.topics.relay(ctx, m.ticketDB); m.topics.relay(ctx, m.payDB) },
		func(ctx context.Context) { m.topics.lie(); pause(ctx, 100*time.Millisecond) },
		func(ctx context.Context) { m.webhook(ctx) },
		func(ctx context.Context) { m.checkPlaces(ctx); pause(ctx, 100*time.Millisecond) },
	}
	for i := range moneyReplicas {
		loops = append(loops,
			func(ctx context.Context) { m.topics.deliver(ctx, events.Payments) },
			func(ctx context.Context) { m.topics.deliver(ctx, events.Reservations) },
			func(ctx context.Context) { m.topics.deliver(ctx, events.Transfers) },
			func(ctx context.Context) { m.topics.deliver(ctx, events.Memberships) },
			func(ctx context.Context) { m.sweepTicket(ctx, i) },
			func(ctx context.Context) { m.payment(i).code.Sweep(ctx) },
		)
	}
	return loops
}

func (m *money) sweepTicket(ctx context.Context, i int) {
	p := m.ticket(i)
	m.expect(p.moneyProcess, "sweep", p.code.Sweep(ctx))
}

// expectAnswer adds a violation if a call has failed with an error that is not a refusal.
func (m *money) expectAnswer(p *moneyProcess, what string, err error) {
	if !errors.Is(err, paymentreplica.ErrRefused) {
		m.expect(p, what, err)
	}
}

// calm ends all faults and lets everything end that ends without help. Late calls arrive, lost
// webhooks are replaced, as by a nightly comparison, and an operator decides about some held
// refunds.
func (m *money) calm(ctx context.Context) {
	m.faults.Store(false)
	m.provider.setFaults(false)
	for m.arriveLate() {
	}
	for i := 0; i < 150; i++ {
		m.advance(2 * time.Minute)
		for _, db := range []*pgxpool.Pool{m.ticketDB, m.payDB} {
			m.topics.relay(ctx, db)
		}
		for _, topic := range []string{events.Payments, events.Reservations, events.Transfers, events.Memberships} {
			for m.topics.deliver(ctx, topic) {
			}
		}
		m.sweepTicket(ctx, 0)
		m.payment(0).code.Sweep(ctx)
		if i%4 != 3 {
			continue
		}
		m.provider.settleAll()
		for m.webhook(ctx) {
		}
		if i < 40 && m.provider.pick(3) == 0 {
			m.decide(ctx, 0, m.provider.pick(4))
		}
		m.advance(2 * time.Hour)
		if i > 40 && len(m.unended(ctx)) == 0 {
			return
		}
	}
}

// check requires at the end that there were no violations.
func (m *money) check(ctx context.Context) {
	m.t.Helper()
	for _, x := range m.unended(ctx) {
		m.violate("not ended: %s", x)
	}
	m.checkPlaces(ctx)
	m.checkClaims(ctx)
	m.checkBooks()
	for _, db := range []*pgxpool.Pool{m.ticketDB, m.payDB} {
		for _, n := range texts(ctx, db, `SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database() AND deadlocks > 0`) {
			m.violate("deadlocks: %s", n)
		}
	}
	m.countEnds(ctx)
	require.NotZero(m.t, texts(ctx, m.ticketDB, `SELECT ticket_id::text FROM tickets`), "nobody could buy: -seed %d", m.seed)
	found, counts := m.report()
	m.t.Log(counts)
	require.Empty(m.t, found, "-seed %d", m.seed)
}

// acquireBackends starts the PostgreSQL server of the tests, unless it runs.
func acquireBackends(t *testing.T) {
	t.Helper()
	layout, err := platform.Find()
	require.NoError(t, err)
	release, err := backends.New(layout, true, t.Logf).Acquire(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, release(context.Background())) })
}
