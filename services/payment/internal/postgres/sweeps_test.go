package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

func setup(t *testing.T) (*pgxpool.Pool, *testkit.Clock, *postgres.Store) {
	t.Helper()
	pool := postgrestest.New(t, postgres.Migrations...)
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	return pool, clock, postgres.NewStore(pool, postgres.Options{Now: clock.Now})
}

func open(t *testing.T, s *postgres.Store, expiresAt time.Time) payment.Payment {
	t.Helper()
	p, err := s.Open(t.Context(), payment.Payment{
		ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
		UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "sandbox", ExpiresAt: expiresAt,
	}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: "k"})
	require.NoError(t, err)
	return p
}

func claim(t *testing.T, s *postgres.Store) []payment.Payment {
	t.Helper()
	var due []payment.Payment
	for _, lane := range []payment.Lane{payment.Expiries, payment.Releases, payment.Pages, payment.Charges, payment.Looks} {
		claimed, _, err := s.ClaimDue(t.Context(), lane, 10, time.Minute)
		require.NoError(t, err)
		due = append(due, claimed...)
	}
	return due
}

func TestClaimEndsWithItsLease(t *testing.T) {
	t.Parallel()
	_, clock, s := setup(t)
	open(t, s, clock.Now().Add(time.Hour))
	clock.Advance(time.Hour - time.Microsecond)
	require.Empty(t, claim(t, s), "it is not due yet")
	clock.Advance(time.Microsecond)
	first := claim(t, s)
	require.Len(t, first, 1)
	clock.Advance(time.Minute - time.Microsecond)
	require.Empty(t, claim(t, s), "it is claimed")
	clock.Advance(time.Microsecond)
	second := claim(t, s)
	require.Len(t, second, 1)

	require.NoError(t, s.Reschedule(t.Context(), first[0], 0), "whoever lost the lease changes nothing")
	require.Empty(t, claim(t, s))
	require.NoError(t, s.Reschedule(t.Context(), second[0], time.Second))
	clock.Advance(time.Second)
	require.Len(t, claim(t, s), 1)
}

// Without Options.Now the database's clock is used.
func TestDatabaseClockIsUsed(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, postgres.Migrations...)
	s := postgres.NewStore(pool, postgres.Options{})
	var now time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT now()`).Scan(&now))
	open(t, s, now.Add(24*time.Hour))
	require.Empty(t, claim(t, s))
	_, err := pool.Exec(t.Context(), `UPDATE payments SET check_at = now()`)
	require.NoError(t, err)
	due, at, err := s.ClaimDue(t.Context(), payment.Expiries, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.False(t, due[0].CreatedAt.Before(now))
	require.False(t, at.Before(due[0].CreatedAt))
}

func TestLanesClaimTheirOwnPayments(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	want := map[uuid.UUID]payment.Lane{}
	for status, lane := range map[string]payment.Lane{
		"PREPARED": payment.Expiries, "OPEN": payment.Expiries, "OPEN, back from the page": payment.Pages, "OPEN, back without a key": payment.Pages,
		"DECLINED, releasing": payment.Releases, "EXPIRED, releasing": payment.Releases, "DECLINED, heard of": payment.Looks,
		"CONFIRMING": payment.Charges, "UNKNOWN": payment.Charges, "DECLINED": payment.Looks,
		"DECLINED, authorised": payment.Charges, "EXPIRED, opened": payment.Looks, "OPEN, not heard of": payment.Looks,
	} {
		p, err := s.Open(t.Context(), payment.Payment{
			ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
			UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "sandbox", ExpiresAt: clock.Now().Add(time.Hour),
		}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: status})
		require.NoError(t, err)
		name, detail, _ := strings.Cut(status, ", ")
		key := ""
		if detail == "back from the page" {
			key = "ok-1"
		}
		_, err = pool.Exec(t.Context(), `UPDATE payments SET status = $2, abort_due = $3, check_at = $4, payment_key = $5, hinted = $6,
			cancel_due = $7, provider_ref = $8 WHERE id = $1`,
			p.ID, name, detail == "releasing", clock.Now(), key, detail == "back without a key" || detail == "heard of",
			detail == "authorised" || detail == "opened", map[bool]string{true: "page"}[detail == "not heard of"])
		require.NoError(t, err)
		want[p.ID] = lane
	}
	got := map[uuid.UUID]payment.Lane{}
	for _, lane := range []payment.Lane{payment.Expiries, payment.Releases, payment.Pages, payment.Charges, payment.Looks} {
		due, _, err := s.ClaimDue(t.Context(), lane, 10, time.Minute)
		require.NoError(t, err)
		for _, p := range due {
			got[p.ID] = lane
		}
		if lane == payment.Releases {
			require.NoError(t, s.Released(t.Context(), due[0]))
			want[due[0].ID] = payment.Looks
		}
	}
	require.Empty(t, cmp.Diff(want, got))
}

// A webhook after the sweeper's look-up is not lost when the sweeper records the outcome.
func TestHintDuringSettlement(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	p := open(t, s, clock.Now().Add(time.Minute))
	_, err := pool.Exec(t.Context(), `UPDATE payments SET status = 'DECLINED', abort_due = true, check_at = $1`, clock.Now())
	require.NoError(t, err)
	due := claim(t, s)
	require.Len(t, due, 1)
	require.Empty(t, claim(t, s), "it is claimed")

	require.NoError(t, s.Hint(t.Context(), p.OrderID, false))
	require.NoError(t, s.Reschedule(t.Context(), due[0], payment.Never))
	again := claim(t, s)
	require.Len(t, again, 1)

	require.NoError(t, s.Reschedule(t.Context(), again[0], payment.Never))
	require.NoError(t, s.Reschedule(t.Context(), again[0], 0), "what is forgotten stays so")
	require.Empty(t, claim(t, s))
}

// A hint is cleared only by a look-up that began after it, not by other changes of the payment.
func TestHintOutlivesChanges(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	p := open(t, s, clock.Now().Add(time.Hour))
	require.ErrorIs(t, s.Hint(t.Context(), "no-such-order", false), payment.ErrNotFound)
	require.NoError(t, s.Hint(t.Context(), p.OrderID, false))
	_, err := s.Apply(t.Context(), p.ID, func(payment.Payment, time.Time) (*payment.Change, error) {
		return &payment.Change{Status: payment.Confirmed, Captured: 1000, Check: payment.Never}, nil
	})
	require.NoError(t, err)
	due := claim(t, s)
	require.Len(t, due, 1)
	require.True(t, due[0].Hinted)

	require.NoError(t, s.Hint(t.Context(), p.OrderID, false), "a charge of a confirmed payment is known")
	require.NoError(t, s.Reschedule(t.Context(), due[0], payment.Never))
	require.Empty(t, claim(t, s))
	require.NoError(t, s.Hint(t.Context(), p.OrderID, true), "a refund is not")
	clock.Advance(5 * time.Second)
	require.Len(t, claim(t, s), 1)

	_, err = pool.Exec(t.Context(), `UPDATE payments SET status = 'PREPARED'`)
	require.NoError(t, err)
	require.NoError(t, s.Hint(t.Context(), p.OrderID, false))
	clock.Advance(5 * time.Second)
	due = claim(t, s)
	require.Len(t, due, 1)
	require.NoError(t, s.Reschedule(t.Context(), due[0], payment.Never))
	require.Empty(t, claim(t, s))
	clock.Advance(time.Hour)
	require.Len(t, claim(t, s), 1, "a prepared payment still expires")
}

// Show uses the pool Reads, so that payers who poll do not use up the connections for charges.
func TestShowTakesNoConnectionOfCharges(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t, postgres.Migrations...)
	pools := make([]*pgxpool.Pool, 2)
	for i := range pools {
		pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: 2}, "test")
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		pools[i] = pool
	}
	s := postgres.NewStore(pools[0], postgres.Options{Reads: pools[1]})
	p := open(t, s, time.Now().Add(time.Hour))
	before := pools[0].Stat().AcquireCount()
	shown, err := s.Show(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, p.ID, shown.Payment.ID)
	require.Len(t, shown.Timeline, 1)
	require.Equal(t, before, pools[0].Stat().AcquireCount())
}

// Refunds by hand from one look-up are recorded in one transaction, all with the same Whole.
func TestAdoptIsAllOrNothing(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	p := open(t, s, clock.Now().Add(time.Hour))
	_, err := pool.Exec(t.Context(), `UPDATE payments SET status = 'CONFIRMED', captured = 1000`)
	require.NoError(t, err)
	found := payment.ByHandRefunds{Whole: true, Refunds: []payment.ProviderRefund{{ID: "a", Amount: 600}, {ID: "b", Amount: -1}}}
	_, err = s.Adopt(t.Context(), p.ID, found)
	require.Error(t, err, "no amount is negative")
	count := func(sql string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	require.Zero(t, count(`SELECT count(*) FROM refunds`))
	found.Refunds[1].Amount = 400
	for _, want := range []int64{1000, 0} {
		adopted, err := s.Adopt(t.Context(), p.ID, found)
		require.NoError(t, err)
		require.Equal(t, want, adopted, "each once")
	}
	require.Equal(t, 1000, count(`SELECT hand FROM payments WHERE status = 'REFUNDED' AND refunded = 1000`))
	require.Equal(t, 2, count(`SELECT count(*) FROM refunds WHERE scope = '{"whole": true}'`))
}

// A replica works on the payments of its own providers only.
func TestClaimsOfOwnProviders(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	open(t, s, clock.Now())
	other := postgres.NewStore(pool, postgres.Options{Now: clock.Now, Providers: []string{"bank", "none"}})
	require.Empty(t, claim(t, other))
	own := postgres.NewStore(pool, postgres.Options{Now: clock.Now, Providers: []string{"bank", "sandbox"}})
	require.Len(t, claim(t, own), 1)
}

// Of the payments whose buyers may have paid, those that can be charged at once come first, then those
// whose buyers are back.
func TestBuyersWhoAreBackGoFirst(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	var ids []uuid.UUID
	for range 3 {
		p, err := s.Open(t.Context(), payment.Payment{
			ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
			UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "stripe", ExpiresAt: clock.Now().Add(time.Hour),
		}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: uuid.NewString()})
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `UPDATE payments SET status = 'OPEN', provider_ref = 'page' WHERE id = $1`, p.ID)
		require.NoError(t, err)
		require.NoError(t, s.Hint(t.Context(), p.OrderID, false))
		clock.Advance(time.Second)
		ids = append(ids, p.ID)
		if len(ids) == 2 {
			require.NoError(t, s.HintReturn(t.Context(), p.OrderID))
		}
	}
	_, err := pool.Exec(t.Context(), `UPDATE payments SET payment_key = 'k' WHERE id = $1`, ids[2])
	require.NoError(t, err)
	clock.Advance(time.Minute)
	for _, want := range []uuid.UUID{ids[2], ids[1], ids[0]} {
		due, _, err := s.ClaimDue(t.Context(), payment.Pages, 1, time.Minute)
		require.NoError(t, err)
		require.Len(t, due, 1)
		require.Equal(t, want, due[0].ID)
	}
}
