package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	paymentreplica "urr.guru/services/payment/replicatest"
	ticketreplica "urr.guru/services/ticket/replicatest"
)

// moneyStart is far from the real time, so that a statement that uses the database's clock instead
// of the run's violates something.
var moneyStart = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

const (
	moneyReplicas = 2
	// moneyKeyLife is how long the provider recognises the idempotency key of a refund.
	moneyKeyLife = 5 * time.Minute
)

// money is one run: two replicas each of the ticket and payment services on two real databases, the
// provider with its ledger, and the topics. The run has its own clock.
type money struct {
	t        *testing.T
	seed     uint64
	clock    *testkit.Clock
	urls     [2]config.Secret // of the ticket and payment databases
	ticketDB *pgxpool.Pool    // the test's own pool, which stays open
	payDB    *pgxpool.Pool
	provider *moneyProvider
	topics   *moneyTopics
	plan     string // id of the membership plan

	faults  atomic.Bool
	stopped atomic.Bool
	lives   atomic.Uint64 // number of processes so far
	closing sync.WaitGroup

	mu         sync.Mutex
	tickets    [moneyReplicas]*ticketProcess
	payments   [moneyReplicas]*paymentProcess
	delayed    []func() // calls to the ticket service that arrive after the caller has given up
	violations []string
	counts     map[string]int
}

type ticketProcess struct {
	*moneyProcess

	server *moneyServer
	code   *ticketreplica.Replica
}

type paymentProcess struct {
	*moneyProcess

	server *moneyServer
	code   *paymentreplica.Replica
}

func newMoney(t *testing.T, seed uint64) *money {
	t.Helper()
	m := &money{t: t, seed: seed, clock: testkit.NewClock(moneyStart), counts: make(map[string]int)}
	m.urls = [2]config.Secret{postgrestest.URL(t, ticketreplica.Migrations...), postgrestest.URL(t, paymentreplica.Migrations...)}
	m.ticketDB, m.payDB = m.open(m.urls[0], nil), m.open(m.urls[1], nil)
	t.Cleanup(m.ticketDB.Close)
	t.Cleanup(m.payDB.Close)
	m.provider = newMoneyProvider(m, filepath.Join(t.TempDir(), "ledger"))
	m.topics = newMoneyTopics(m)
	t.Cleanup(m.close)
	return m
}

// open opens a pool for a process; nil: for the test, whose checks may be slow on a busy machine.
func (m *money) open(url config.Secret, p *moneyProcess) *pgxpool.Pool {
	opts := []postgres.Option{postgres.Indexed()}
	if p != nil {
		opts = append(opts, p.configure)
	} else {
		url += "&statement_timeout=10min&idle_in_transaction_session_timeout=10min"
	}
	pool, err := postgres.Open(context.Background(), postgres.Config{URL: url, MaxConns: 8}, "money", opts...)
	require.NoError(m.t, err)
	return pool
}

// now is the clock of all processes. It advances a little with every reading, since snapshots are
// identified by their time.
func (m *money) now() time.Time { return m.clock.Advance(time.Microsecond) }

// advance lets time pass. Late calls to the provider arrive at their time.
func (m *money) advance(d time.Duration) {
	m.provider.wire.Lock()
	defer m.provider.wire.Unlock()
	end := m.clock.Now().Add(d)
	m.provider.deliverLate(end)
	if left := end.Sub(m.clock.Now()); left > 0 {
		m.clock.Advance(left)
	}
}

func (m *money) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// violate records a violation of an invariant.
func (m *money) violate(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.violations, text) {
		m.violations = append(m.violations, text)
	}
}

// expect records a violation if err is internal: refusals and unavailability are expected.
func (m *money) expect(p *moneyProcess, what string, err error) {
	if err == nil || p.dead.Load() {
		return
	}
	if e := errs.From(err); e.Kind == errs.Internal {
		m.violate("%s by %s: %v", what, p.name, err)
	}
}

func (m *money) newProcess(name string) *moneyProcess {
	return &moneyProcess{
		world: m, name: name, rand: rand.New(rand.NewPCG(m.seed, m.lives.Add(1))), conns: make(map[net.Conn]struct{}), //nolint:gosec // repeatable
	}
}

// ticket returns a replica of the ticket service. A new process first replaces a dead one.
func (m *money) ticket(i int) *ticketProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.tickets[i]
	if old != nil && !old.dead.Load() {
		return old
	}
	p := &ticketProcess{moneyProcess: m.newProcess("ticket")}
	pool := m.open(m.urls[0], p.moneyProcess)
	var err error
	p.code, err = ticketreplica.New(pool, m.now, config.Secret("k:"+tokentest.Seed('m')))
	require.NoError(m.t, err)
	p.server = newMoneyServer(p.moneyProcess, p.code.Register)
	p.end = func() { _ = p.code.Close(context.Background()); pool.Close() }
	if m.tickets[i] = p; old != nil {
		m.closing.Go(old.end)
	}
	return p
}

// payment returns a replica of the payment service. A new process first replaces a dead one.
func (m *money) payment(i int) *paymentProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.payments[i]
	if old != nil && !old.dead.Load() {
		return old
	}
	p := &paymentProcess{moneyProcess: m.newProcess("payment")}
	pool := m.open(m.urls[1], p.moneyProcess)
	p.code = paymentreplica.New(paymentreplica.Options{
		Pool: pool, Tickets: &moneyLine{m, p.moneyProcess}, Provider: &providerLine{m.provider, p.moneyProcess}, Secret: moneySecret,
		KeyLife: moneyKeyLife, Now: m.now, Log: slog.New(slog.DiscardHandler),
	})
	p.server = newMoneyServer(p.moneyProcess, p.code.Register)
	p.end = func() { _ = p.code.Wait(context.Background()); pool.Close() }
	if m.payments[i] = p; old != nil {
		m.closing.Go(old.end)
	}
	return p
}

// close ends all processes.
func (m *money) close() {
	for i := range moneyReplicas {
		m.closing.Go(m.ticket(i).end)
		m.closing.Go(m.payment(i).end)
	}
	m.closing.Wait()
}

// moneyLine is the connection from a payment process to the ticket service. A call or its answer
// may get lost, or the call may arrive after the caller has given up.
type moneyLine struct {
	world  *money
	caller *moneyProcess
}

func (l *moneyLine) Invoke(ctx context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	if !l.caller.step() {
		return errDead
	}
	call := func(ctx context.Context, out any) error {
		return l.world.ticket(l.world.provider.pick(moneyReplicas)).server.Invoke(ctx, method, in, out)
	}
	switch n := l.world.provider.roll(100); {
	case n < 3: // the call is lost
		return errs.ErrUnavailable
	case n < 6: // the call is late
		late := proto.Clone(out.(proto.Message)) //nolint:forcetypeassert // generated code
		l.world.delay(func() { _ = call(context.Background(), late) })
		return errs.ErrUnavailable
	case n < 10: // its answer is lost
		_ = call(ctx, proto.Clone(out.(proto.Message))) //nolint:forcetypeassert // generated code
		return errs.ErrUnavailable
	}
	err := call(ctx, out)
	if !l.caller.step() {
		return errDead
	}
	return err
}

// NewStream fails: none of the calls is a stream.
func (*moneyLine) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errs.ErrUnavailable
}

func (m *money) delay(call func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts["late call to ticket"]++
	m.delayed = append(m.delayed, call)
}

// arriveLate lets the oldest delayed call arrive. It returns false when there is none.
func (m *money) arriveLate() bool {
	m.mu.Lock()
	if len(m.delayed) == 0 {
		m.mu.Unlock()
		return false
	}
	call := m.delayed[0]
	m.delayed = m.delayed[1:]
	m.mu.Unlock()
	call()
	return true
}

// openPlan creates a membership plan that is on sale.
func (m *money) openPlan() {
	m.t.Helper()
	plan, err := ticketv1.NewMembershipAdminServiceClient(m.ticket(0).server).CreatePlan(m.t.Context(), &ticketv1.CreatePlanRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}, IdempotencyKey: "plan"}, Name: "Friends", Price: 40, Currency: "KRW", Months: 1,
	})
	require.NoError(m.t, err)
	m.plan = plan.GetPlanId()
}

// openSales creates one event with seats and one with standing places, both with fees. Their
// refunds and doors close at random times during the run.
func (m *money) openSales(rng *rand.Rand) {
	m.t.Helper()
	n := func(n int32) *int32 { return &n }
	capacity := int64(12)
	for id, section := range map[string]*ticketv1.SectionSpec{
		"seats": {Section: "A", Price: 100, Rows: n(2), SeatsPerRow: n(7)}, "floor": {Section: "A", Price: 60, Capacity: &capacity},
	} {
		seating := "ASSIGNED"
		if section.Capacity != nil {
			seating = "GENERAL"
		}
		_, err := ticketv1.NewEventAdminServiceClient(m.ticket(0).server).PutEvent(m.t.Context(), &ticketv1.PutEventRequest{
			Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: id, Spec: &ticketv1.EventSpec{
				Title: id, Artist: "a", Venue: "v", StartsAt: timestamppb.New(moneyStart.Add(240 * time.Hour)),
				SalesOpenAt: timestamppb.New(moneyStart.Add(-time.Hour)), SalesCloseAt: timestamppb.New(moneyStart.Add(200 * time.Hour)),
				Seating: seating, Currency: "KRW", MaxPerUser: 4, ReturnWithin: n(600), Transferable: proto.String("PRICED"), Sections: []*ticketv1.SectionSpec{section},
			},
		})
		require.NoError(m.t, err)
	}
	for _, id := range []string{"floor", "seats"} {
		closes := moneyStart.Add(time.Hour + time.Duration(rng.IntN(240))*time.Minute)
		for _, sql := range []string{
			`UPDATE events SET closes_at = $2::timestamptz, refund_until = $2::timestamptz - interval '20 minutes' WHERE event_id = $1`,
			`UPDATE sections SET fee = CASE event_id WHEN 'seats' THEN 10 ELSE 5 END WHERE event_id = $1 AND $2::timestamptz IS NOT NULL`,
		} {
			_, err := m.ticketDB.Exec(m.t.Context(), sql, id, closes)
			require.NoError(m.t, err)
		}
	}
}

// texts returns the first column of a query's rows, or the text of its error.
func texts(ctx context.Context, db *pgxpool.Pool, sql string, args ...any) []string {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return []string{err.Error()}
	}
	return list
}
