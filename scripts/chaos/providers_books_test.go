package chaos_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
	"urr.guru/services/payment/fakes"
)

// The exit codes of `payment reconcile`.
const (
	noDifferences  = 0
	hasDifferences = 3
)

// plantedDifferences are differences between the payment database and a provider's account. Each is
// in a payment that is paid or refunded. If sql is empty, the provider charges again.
var plantedDifferences = []struct {
	refunded bool
	sql      string
	kinds    []string
}{
	{kinds: []string{"CAPTURE_TWICE"}},
	{sql: `UPDATE payments SET order_id = gen_random_uuid(), provider_ref = '', payment_key = '', charge_id = '' WHERE id = $1`,
		kinds: []string{"CAPTURE_ONLY_HERE", "CAPTURE_UNKNOWN"}},
	{sql: `UPDATE payments SET status = 'EXPIRED', captured = 0, captured_at = NULL, charge_id = '' WHERE id = $1`, kinds: []string{"CAPTURE_ONLY_THERE"}},
	{sql: `UPDATE payments SET captured = captured - 1 WHERE id = $1`, kinds: []string{"CAPTURE_AMOUNT"}},
	{true, `WITH items AS (DELETE FROM refund_items WHERE refund_id IN (SELECT id FROM refunds WHERE payment_id = $1))
		DELETE FROM refunds WHERE payment_id = $1`, []string{"REFUND_UNKNOWN"}},
	{true, `UPDATE refunds SET provider_id = 'another' WHERE payment_id = $1`, []string{"REFUND_ONLY_HERE", "REFUND_TWICE"}},
	{true, `UPDATE refunds SET status = 'HELD' WHERE payment_id = $1`, []string{"REFUND_STATE"}},
	{true, `UPDATE refunds SET send = send - 1 WHERE payment_id = $1`, []string{"REFUND_AMOUNT"}},
	{true, `UPDATE payments SET refunded = refunded - 1 WHERE id = $1`, []string{"REFUND_SUM"}},
}

// requireReconciled lets some buyers return their places, and requires that `payment reconcile`
// finds no difference in any provider's account, nor at ticket, and then each planted difference.
func (s *switched) requireReconciled(day time.Time, names []string) {
	s.t.Helper()
	for _, name := range names {
		s.Fake(name).SetFaults(fakes.Faults{})
	}
	chosen := map[string][]*payingBuyer{}
	for _, name := range names {
		for _, b := range s.buyers {
			if b.provider == name && b.paid && len(chosen[name]) < len(plantedDifferences) {
				chosen[name] = append(chosen[name], b)
			}
		}
		require.Len(s.t, chosen[name], len(plantedDifferences), "buyers who have paid at %s", name)
		for i, p := range plantedDifferences {
			if p.refunded {
				chosen[name][i].requestRefund(s)
			}
		}
	}
	s.requireSettled()
	s.requireNoFaults()
	out := s.reconcile(day, noDifferences)
	for _, name := range append([]string{"ticket"}, names...) {
		require.Contains(s.t, out, "provider="+name+" captures=", "%s", out)
	}

	for i := range s.Service(platform.Payment).Replicas() {
		s.Service(platform.Payment).Stop(i) // it would repair some differences
	}
	var want []string
	for _, name := range names {
		for i, p := range plantedDifferences {
			b := chosen[name][i]
			if p.sql == "" {
				s.Fake(name).Control(http.MethodPost, "charge", map[string]any{"order": b.OrderID, "amount": b.Amount})
			} else {
				_, err := s.payment.Exec(s.t.Context(), p.sql, b.PaymentID)
				require.NoError(s.t, err, p.sql)
			}
			for _, kind := range p.kinds {
				want = append(want, fmt.Sprintf("OPEN %s provider=%s", kind, name))
			}
		}
	}
	out = s.reconcile(day, hasDifferences)
	var got []string
	for line := range strings.Lines(out) {
		// Some of them differ from what ticket has sold, too.
		if words := strings.Fields(line); len(words) > 3 && words[0] == "OPEN" && words[2] != "provider=ticket" {
			got = append(got, strings.Join(words[:3], " "))
		}
	}
	require.ElementsMatch(s.t, want, got, "%s", out)
}

func (s *switched) reconcile(day time.Time, want int) (out string) {
	s.t.Helper()
	out, code := s.Service(platform.Payment).Command(s.t.Context(), "reconcile", "--day", day.Format(time.DateOnly))
	require.Equal(s.t, want, code, "%s", out)
	return out
}

func (b *payingBuyer) requestRefund(s *switched) {
	s.t.Helper()
	b.With("Idempotency-Key", uuid.NewString()).MustCall(s.t.Context(), http.MethodPost, "/api/v1/payments/"+b.PaymentID+"/refund",
		map[string]any{"reason": "cannot come"}, nil)
}
