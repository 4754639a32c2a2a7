package sandbox_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refund asks for a refund of the order o. It returns the HTTP status and the answer.
func (p *provider) refund(t *testing.T, key, amount string) (status int, answer map[string]any) {
	t.Helper()
	return p.call(t.Context(), http.MethodPost, "/v1/charges/o/refunds",
		`{"idempotencyKey":"`+key+`","reference":"ours-`+key+`","amount":`+amount+`}`)
}

// refunds returns the captured amount and the refunds of the order o.
func (p *provider) refunds(t *testing.T) (captured float64, refunds []any) {
	t.Helper()
	code, answer := p.call(t.Context(), http.MethodGet, "/v1/charges/o/refunds", "")
	require.Equal(t, http.StatusOK, code)
	return answer["captured"].(float64), answer["refunds"].([]any)
}

func (p *provider) faults(t *testing.T, body string) {
	t.Helper()
	code, answer := p.call(t.Context(), http.MethodPut, "/v1/faults", body)
	require.Equal(t, http.StatusNoContent, code, "%v", answer)
}

func (p *provider) types() (types []string) {
	for _, n := range p.hooks.received() {
		types = append(types, n["type"].(string))
	}
	return types
}

// After KeyLife a key is forgotten: it then makes another refund.
func TestRefundKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger")
		p := start(t, file)
		_, _ = p.charge(t, "o", "ok-1")
		_, first := p.refund(t, "k", "100")
		require.Equal(t, "DONE", first["status"])
		time.Sleep(24*time.Hour - time.Second)
		_, again := p.refund(t, "k", "100")
		require.Equal(t, first, again)
		p.stop()
		p = start(t, file) // the ledger's file has the keys too
		_, again = p.refund(t, "k", "100")
		require.Equal(t, first, again)
		time.Sleep(time.Second)
		_, second := p.refund(t, "k", "100")
		require.NotEqual(t, first["refundId"], second["refundId"])
		captured, refunds := p.refunds(t)
		require.InDelta(t, 55000, captured, 0)
		require.Len(t, refunds, 2)
		require.Equal(t, "ours-k", refunds[0].(map[string]any)["reference"])

		p.faults(t, `{"keyLife":"1m"}`)
		time.Sleep(time.Minute)
		_, third := p.refund(t, "k", "100")
		require.NotEqual(t, second["refundId"], third["refundId"])
	})
}

// An accepted refund is made later, or fails. If it fails, the money can be refunded again.
func TestAcceptedRefunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger")
		p := start(t, file)
		_, _ = p.charge(t, "o", "ok-1")
		p.faults(t, `{"pending":1,"settleFor":"3s"}`)
		_, made := p.refund(t, "a", "1000")
		require.Equal(t, "PENDING", made["status"])
		time.Sleep(4 * time.Second)
		synctest.Wait()
		_, again := p.refund(t, "a", "1000")
		require.Equal(t, "DONE", again["status"])

		p.faults(t, `{"failing":1,"settleFor":"72h"}`)
		_, failing := p.refund(t, "b", "2000")
		require.Equal(t, "DONE", failing["status"])
		time.Sleep(73 * time.Hour)
		synctest.Wait()
		_, refunds := p.refunds(t)
		require.Equal(t, "FAILED", refunds[1].(map[string]any)["status"])
		_, c := p.call(t.Context(), http.MethodGet, "/v1/charges/o", "")
		require.InDelta(t, 1000, c["refundedAmount"], 0)
		require.ElementsMatch(t, []string{"charge.captured", "charge.refunded", "refund.done", "charge.refunded", "refund.failed"}, p.types())

		// A pending refund continues after a restart.
		p.faults(t, `{"pending":1,"settleFor":"1h"}`)
		_, _ = p.refund(t, "c", "3000")
		p.stop()
		p = start(t, file)
		synctest.Wait()
		_, refunds = p.refunds(t)
		require.Equal(t, "DONE", refunds[2].(map[string]any)["status"])
		code, failed := p.call(t.Context(), http.MethodPost, "/v1/refunds/"+refunds[2].(map[string]any)["refundId"].(string)+"/settle", `{"status":"FAILED"}`)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "FAILED", failed["status"])
	})
}

// A person can refund a part, and then all that is left.
func TestRefundByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, filepath.Join(t.TempDir(), "ledger"))
		_, _ = p.charge(t, "o", "ok-1")
		synctest.Wait()
		for _, c := range []struct {
			body   string
			amount float64
		}{{`{"amount":1000}`, 1000}, {`{}`, 54000}} {
			code, r := p.call(t.Context(), http.MethodPost, "/v1/charges/o/refunds/by-hand", c.body)
			require.Equal(t, http.StatusOK, code)
			require.InDelta(t, c.amount, r["amount"], 0)
			require.NotContains(t, r, "reference")
		}
		synctest.Wait()
		require.Equal(t, []string{"charge.captured", "charge.refunded", "charge.refunded"}, p.types())
		code, _ := p.call(t.Context(), http.MethodPost, "/v1/charges/o/refunds/by-hand", `{}`)
		require.Equal(t, http.StatusUnprocessableEntity, code)
	})
}

func TestRefundFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, filepath.Join(t.TempDir(), "ledger"))
		_, _ = p.charge(t, "o", "ok-1")
		for name, c := range map[string]struct {
			faults, amount, code string
			want                 int
		}{
			"whole only": {`{"wholeOnly":true}`, "1000", "", http.StatusGone},
			"disputed":   {`{"refused":1}`, "1000", "", http.StatusGone},
			"too much":   {`{}`, "55001", "TOO_MUCH", http.StatusUnprocessableEntity},
		} {
			p.faults(t, c.faults)
			code, answer := p.refund(t, name, c.amount)
			require.Equal(t, c.want, code, name)
			if c.code != "" {
				require.Equal(t, c.code, answer["code"], name)
			}
		}
		made := 0
		for _, c := range []struct {
			key, faults string
			makes       int
		}{{"silent", `{"silent":1}`, 0}, {"lost", `{"lost":1}`, 1}, {"late", `{"late":1,"lateFor":"5s"}`, 1}} {
			p.faults(t, c.faults)
			require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { _, _ = p.refund(t, c.key, "100") })
			time.Sleep(6 * time.Second)
			synctest.Wait()
			made += c.makes
			_, refunds := p.refunds(t)
			require.Len(t, refunds, made, c.faults)
		}
		for _, bad := range []string{`{"lost":0.6,"late":0.6}`, `{"lost":-1}`, `{"failing":2}`, `{"settleFor":"soon"}`} {
			code, _ := p.call(t.Context(), http.MethodPut, "/v1/faults", bad)
			require.Equal(t, http.StatusBadRequest, code, bad)
		}
		code, faults := p.call(t.Context(), http.MethodGet, "/v1/faults", "")
		require.Equal(t, http.StatusOK, code)
		require.InDelta(t, 1, faults["late"], 0)
	})
}
