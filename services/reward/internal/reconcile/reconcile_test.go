package reconcile_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/reconcile"
	"urr.guru/services/reward/sandbox"
)

// environment has allocations of 100 points for the members m1, m2, … with the keys k-1, k-2, …
type environment struct {
	pool   *pgxpool.Pool
	ledger *sandbox.Ledger
	url    string
}

// newEnvironment makes n allocations that are SUCCESS and paid.
func newEnvironment(t *testing.T, n int) *environment {
	t.Helper()
	ledger, err := sandbox.Open(filepath.Join(t.TempDir(), "ledger"), time.Now)
	require.NoError(t, err)
	server := httptest.NewServer(sandbox.NewServer(t.Context(), ledger, sandbox.Faults{}, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { server.Close(); _ = ledger.Close() })
	env := &environment{pool: postgrestest.New(t, postgres.Migrations...), ledger: ledger, url: server.URL + "/v1/ledger"}
	env.exec(t, `INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at) VALUES ('c', 'Campaign', 'RANDOM', now(), now() + interval '1 h')`)
	env.exec(t, fmt.Sprintf(`INSERT INTO event_entry (event_id, member_id, period, created_at) SELECT 'c', 'm' || n, 'CAMPAIGN', now() FROM generate_series(1, %d) AS n`, n))
	env.exec(t, `
		INSERT INTO event_reward_allocation
			(event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key, reward_status, external_transaction_id, processed_at, next_retry_at)
		SELECT 'c', member_id, id, 'POINT', 100, 'DRAW', 'k-' || id, 'SUCCESS', 't', now(), NULL FROM event_entry ORDER BY id`)
	for i := 1; i <= n; i++ {
		env.pay(t, fmt.Sprintf("k-%d", i), fmt.Sprintf("m%d", i), "POINT", 100)
	}
	return env
}

func (env *environment) exec(t *testing.T, statement string) {
	t.Helper()
	_, err := env.pool.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// pay pays without remembering any key, so that a key can be paid twice.
func (env *environment) pay(t *testing.T, key, member, kind string, value int64) {
	t.Helper()
	_, err := env.ledger.Pay(sandbox.Order{Key: key, MemberID: member, Kind: kind, Value: value}, 0)
	require.NoError(t, err)
}

// set updates the row of an allocation directly.
func (env *environment) set(t *testing.T, id int, assignments string) {
	t.Helper()
	env.exec(t, fmt.Sprintf(`UPDATE event_reward_allocation SET %s WHERE id = %d`, assignments, id))
}

// compare returns the findings as "kind id", and the counts.
func (env *environment) compare(t *testing.T, opts reconcile.Options) ([]string, reconcile.Counts) {
	t.Helper()
	found := []string{}
	opts.Report = func(f reconcile.Finding) error {
		t.Log(f)
		require.NotContains(t, f.String(), "\n")
		found = append(found, fmt.Sprintf("%s %d", f.Kind, f.AllocationID))
		return nil
	}
	if opts.Kinds == nil {
		opts.Kinds = payout.Kinds()
	}
	counts, err := reconcile.Run(t.Context(), env.store(), env.url, opts)
	require.NoError(t, err)
	t.Log(&counts)
	return found, counts
}

func (env *environment) store() reconcile.Store {
	return postgres.Reconciliation{Database: postgres.New(env.pool, postgres.Options{})}
}

// Assignments of set; a row that is not SUCCESS has no transaction.
const (
	unpaid    = `external_transaction_id = NULL, processed_at = NULL`
	failed    = unpaid + `, reward_status = 'FAILED'`
	pending   = unpaid + `, reward_status = 'PENDING'`
	cancelled = unpaid + `, reward_status = 'CANCELLED'`
	working   = unpaid + `, reward_status = 'PROCESSING', lease_until = now() + interval '1 h'`
)

func TestEachDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	pay := func(key string) []string { return []string{key} }
	for name, tc := range map[string]struct {
		set  map[int]string // by allocation
		pay  []string       // keys that are paid to m2
		want []string
	}{
		"none":            {want: []string{}},
		"paid, failed":    {set: map[int]string{2: failed}, want: []string{"paid_not_success 2"}},
		"paid, pending":   {set: map[int]string{2: pending}, want: []string{"paid_not_success 2"}},
		"paid, cancelled": {set: map[int]string{3: cancelled}, want: []string{"cancelled_paid 3"}},
		"not paid":        {set: map[int]string{1: `idempotency_key = 'k-new'`}, want: []string{"unknown_entry 0", "success_not_paid 1"}},
		"paid twice":      {pay: pay("k-2"), want: []string{"paid_twice 2"}},
		"paid under a key after a void, too": {
			set: map[int]string{2: `resends = 2`}, pay: pay("k-2-R2"), want: []string{"paid_twice 2"},
		},
		"a key that was never sent": {pay: pay("k-2-R1"), want: []string{"unknown_entry 0"}},
		"a key that only looks like one after a void": {
			set: map[int]string{1: `resends = 1`, 2: `idempotency_key = 'k-1-R1'`}, pay: pay("k-1-R1"), want: []string{"unknown_entry 0"},
		},
		"other value":          {set: map[int]string{2: `reward_value = 101`}, want: []string{"other_value 2"}},
		"other member":         {set: map[int]string{2: `member_id = 'm1'`}, want: []string{"other_member 2"}},
		"other kind":           {set: map[int]string{2: `reward_kind = 'COUPON'`}, want: []string{"other_kind 2"}},
		"no allocation":        {pay: pay("by hand\n"), want: []string{"unknown_entry 0"}},
		"processing, paid":     {set: map[int]string{2: working}, want: []string{"undecided 2"}},
		"processing, not paid": {set: map[int]string{2: working + `, idempotency_key = 'k-new'`}, want: []string{"unknown_entry 0", "undecided 2"}},
		"unknown, paid":        {set: map[int]string{2: failed + `, unknown_since = now()`}, want: []string{"undecided 2"}},
		"processing, paid twice": {
			set: map[int]string{2: working}, pay: pay("k-2"), want: []string{"paid_twice 2", "undecided 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, 3)
			for id, assignments := range tc.set {
				env.set(t, id, assignments)
			}
			for _, key := range tc.pay {
				env.pay(t, key, "m2", "POINT", 100)
			}
			found, counts := env.compare(t, reconcile.Options{})
			require.Equal(t, tc.want, found)
			differences := 0
			for _, f := range found {
				if !strings.HasPrefix(f, "undecided") {
					differences++
				}
			}
			require.EqualValues(t, differences, counts.Differences())
			require.EqualValues(t, 3, counts.Allocations)
		})
	}
}

func TestKindsAreComparedApart(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, 4)
	env.set(t, 2, `reward_kind = 'COUPON'`) // its ledger entry is for points
	env.set(t, 3, `reward_kind = 'COUPON', idempotency_key = 'coupon-3'`)
	env.pay(t, "coupon-3", "m3", "COUPON", 100)
	env.set(t, 4, `reward_kind = 'COUPON', idempotency_key = 'coupon-4'`)

	points, counts := env.compare(t, reconcile.Options{Kinds: []payout.Kind{payout.Point}})
	require.Equal(t, []string{"other_kind 2", "unknown_entry 0", "unknown_entry 0"}, points)
	require.EqualValues(t, 1, counts.Allocations)
	coupons, counts := env.compare(t, reconcile.Options{Kinds: []payout.Kind{payout.Coupon}})
	require.Equal(t, []string{"other_kind 2", "success_not_paid 4"}, coupons)
	require.EqualValues(t, 3, counts.Allocations)
}

// An allocation that becomes SUCCESS after the ledger was read is no difference.
func TestSettledAfterTheLedger(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, 2)
	env.set(t, 1, `idempotency_key = 'k-new', processed_at = '2026-03-07T12:00:00Z'`)
	read := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	found, _ := env.compare(t, reconcile.Options{AsOf: read})
	require.Equal(t, []string{"unknown_entry 0", "undecided 1"}, found)
	found, _ = env.compare(t, reconcile.Options{AsOf: read.Add(time.Millisecond)})
	require.Equal(t, []string{"unknown_entry 0", "success_not_paid 1"}, found)
}

// A ledger that begins late lacks older payments, which are then not compared. What it has is compared
// all the same, and so is what became SUCCESS since.
func TestLedgerThatBeginsLate(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, 1)
	since := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	env.exec(t, `INSERT INTO event_entry (event_id, member_id, period, created_at) SELECT 'c', 'm' || n, 'CAMPAIGN', now() FROM generate_series(2, 3) AS n`)
	env.exec(t, `
		INSERT INTO event_reward_allocation
			(event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key, reward_status, external_transaction_id, processed_at, next_retry_at)
		SELECT 'c', member_id, id, 'POINT', 100, 'DRAW', 'k-' || id, 'SUCCESS', 't', '2026-03-07 12:00:00Z', NULL FROM event_entry WHERE member_id <> 'm1' ORDER BY id`)
	env.set(t, 1, `processed_at = '2026-03-07 11:00:00Z'`)
	env.set(t, 2, `processed_at = '2026-03-07 11:59:59Z'`)
	env.pay(t, "k-1-R1", "m1", "POINT", 100)
	found, counts := env.compare(t, reconcile.Options{Since: since})
	require.Equal(t, []string{"unknown_entry 0", "success_not_paid 3"}, found, "the first was never sent again")
	require.Equal(t, int64(2), counts.Allocations)
	found, _ = env.compare(t, reconcile.Options{})
	require.Equal(t, []string{"unknown_entry 0", "success_not_paid 2", "success_not_paid 3"}, found)
}

// TestManyPages has differences before and after the ends of pages.
func TestManyPages(t *testing.T) {
	t.Parallel()
	const n = 5200
	env := newEnvironment(t, n)
	for _, id := range []int{500, 501, 5000, 5001, n} {
		env.set(t, id, `idempotency_key = 'k-new-' || id`)
	}
	for _, id := range []int{1, 499, 502} {
		env.pay(t, fmt.Sprintf("k-%d", id), fmt.Sprintf("m%d", id), "POINT", 100)
	}
	found, counts := env.compare(t, reconcile.Options{})
	require.Equal(t, []string{
		"unknown_entry 0", "unknown_entry 0", "unknown_entry 0", "unknown_entry 0", "unknown_entry 0", "paid_twice 1", "paid_twice 499", "paid_twice 502",
		"success_not_paid 500", "success_not_paid 501", "success_not_paid 5000", "success_not_paid 5001", "success_not_paid 5200",
	}, found)
	require.EqualValues(t, n+3, counts.Entries)
	require.EqualValues(t, n, counts.Allocations)
}

// A ledger that is broken or cut off is not compared.
func TestBrokenLedger(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, 1)
	line := `{"key": "k-1", "memberId": "m1", "kind": "POINT", "value": 100, "transactionId": "t"}` + "\n"
	for content, want := range map[string]string{
		line + "\n" + line[:30]: "ledger, line 3",
		"[]":                    "ledger, line 1",
		`{"memberId": "m1"}`:    "key, memberId and transactionId are required",
		strings.Replace(line, "POINT", "GOLD", 1): `kind "GOLD"`,
		strings.Replace(line, "POINT", "", 1):     "has no kind",
		strings.Repeat(" ", 70<<10):               "token too long",
	} {
		file := filepath.Join(t.TempDir(), "ledger")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		opts := reconcile.Options{Kinds: payout.Kinds(), Report: func(reconcile.Finding) error { return nil }}
		_, err := reconcile.Run(t.Context(), env.store(), file, opts)
		require.ErrorContains(t, err, want)
	}
	_, err := reconcile.Run(t.Context(), env.store(), "no such file", reconcile.Options{})
	require.ErrorContains(t, err, "open ledger")
	_, err = reconcile.Run(t.Context(), env.store(), env.url+"/none", reconcile.Options{})
	require.ErrorContains(t, err, "status 404")
}
