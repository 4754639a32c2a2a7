package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
	provider "urr.guru/services/reward/sandbox"
)

// requireSettled waits until no reward is due without an operator's help, and compares the rewards
// with the provider's ledger. Some rewards may have been given up unpaid.
func (r *rewards) requireSettled() {
	r.t.Helper()
	r.Eventually(func(context.Context) error {
		if n := r.due(); n > 0 {
			return fmt.Errorf("%d rewards are due", n)
		}
		return nil
	})
	r.requireLedger()
}

// requireAllPaid lets an operator retry the rewards that were given up, until every reward is paid
// or cancelled.
func (r *rewards) requireAllPaid() {
	r.t.Helper()
	o := r.operator(rand.New(rand.NewPCG(0, 0))) //nolint:gosec // any replica will do
	r.Eventually(func(ctx context.Context) error {
		open, err := r.count(ctx, `reward_status NOT IN ('SUCCESS', 'CANCELLED')`)
		if err != nil || open == 0 {
			return err
		}
		return errors.Join(fmt.Errorf("%d rewards are not settled", open), o.retryAll(ctx, r), o.retryHeld(ctx, r))
	})
	r.requireLedger()
	output, code := r.Service(platform.Reward).Command(r.t.Context(), "reconcile")
	r.t.Log(output)
	require.Zero(r.t, code)
	require.Contains(r.t, output, "undecided=0 differences=0")
}

// requireLedger requires that a reward in SUCCESS is paid once, as allocated, and no other is paid.
func (r *rewards) requireLedger() {
	r.t.Helper()
	paid := map[string][]provider.Payout{}
	for _, p := range r.ledger() {
		paid[p.MemberID] = append(paid[p.MemberID], p)
	}
	rows, err := r.db.Query(r.t.Context(), `
		SELECT member_id, reward_status, reward_kind, reward_value, coalesce(external_transaction_id, ''), idempotency_key FROM event_reward_allocation`)
	require.NoError(r.t, err)
	defer rows.Close()
	counts, resent := map[string]int{}, 0
	for rows.Next() {
		var member, status, key string
		var want provider.Payout
		require.NoError(r.t, rows.Scan(&member, &status, &want.Kind, &want.Value, &want.TransactionID, &key))
		counts[status]++
		if status != "SUCCESS" {
			require.Empty(r.t, paid[member], "%s is %s", key, status)
			continue
		}
		require.Len(r.t, paid[member], 1, key)
		got := paid[member][0]
		want.MemberID, want.Key, want.At = member, got.Key, got.At
		require.Equal(r.t, want, got)
		if got.Key != key {
			require.True(r.t, strings.HasPrefix(got.Key, key+"-R"), "%s was paid under %s", key, got.Key)
			resent++
		}
	}
	require.NoError(r.t, rows.Err())
	r.t.Logf("%v, %d of them paid under another key after a void", counts, resent)
	require.NotZero(r.t, counts["SUCCESS"])
	require.NotZero(r.t, counts["CANCELLED"])
}

func (r *rewards) ledger() (all []provider.Payout) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.Wiring().RewardProviderURL()+"/v1/ledger", http.NoBody)
	require.NoError(r.t, err)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(r.t, http.StatusOK, answer.StatusCode)
	for lines := json.NewDecoder(answer.Body); ; {
		var p provider.Payout
		err := lines.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(r.t, err)
		all = append(all, p)
	}
}

// logFigures logs what has happened, and requires enough of it for the run to be meaningful.
func (r *rewards) logFigures() {
	r.t.Helper()
	var calls, asked, unknown, lapsed, voided, voidsLost int
	require.NoError(r.t, r.db.QueryRow(r.t.Context(), `
		SELECT count(*), count(*) FILTER (WHERE action = 'ASK'), count(*) FILTER (WHERE outcome = 'UNKNOWN'),
		       count(*) FILTER (WHERE ended_at IS NULL), count(*) FILTER (WHERE outcome = 'VOIDED'),
		       count(*) FILTER (WHERE action = 'ASK' AND outcome = 'UNKNOWN' AND error LIKE 'void:%')
		FROM reward_call`).Scan(&calls, &asked, &unknown, &lapsed, &voided, &voidsLost))
	r.t.Logf("%d kills, %d stops; %d calls, of them %d questions, %d with an unknown outcome, %d voids and %d lost ones, %d whose replica was lost",
		r.kills, r.stops, calls, asked, unknown, voided, voidsLost, lapsed)
	rows, err := r.db.Query(r.t.Context(), `
		SELECT sent_at, next - sent_at AS taken_up FROM (
			SELECT *, lead(sent_at) OVER (PARTITION BY allocation_id ORDER BY version) AS next FROM reward_call) AS c
		WHERE ended_at IS NULL AND next IS NOT NULL ORDER BY taken_up DESC LIMIT 3`)
	require.NoError(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var sent time.Time
		var takenUp time.Duration
		require.NoError(r.t, rows.Scan(&sent, &takenUp))
		r.t.Logf("%v: the call of a lost replica, taken up %v later", sent.Sub(r.begun).Round(time.Millisecond), takenUp)
	}
	require.NoError(r.t, rows.Err())
	needed := map[string]int{"questions": asked, "unknown outcomes": unknown, "lost replicas": lapsed, "voids": voided}
	if *full { // the short form voids a handful of keys
		needed["lost voids"] = voidsLost
	}
	for what, n := range needed {
		require.NotZero(r.t, n, "a run without %s shows nothing", what)
	}
}
