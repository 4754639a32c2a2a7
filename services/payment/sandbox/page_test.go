package sandbox_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const shop = "https://shop.test/back?orderId=o&token=t"

// openPage opens a page for a minute and returns its path.
func (p *provider) openPage(t *testing.T, key string) string {
	t.Helper()
	code, s := p.call(t.Context(), http.MethodPost, "/v1/sessions", sessionBody("o", key, shop))
	require.Equal(t, http.StatusOK, code)
	id, ok := s["sessionId"].(string)
	require.True(t, ok)
	return "/pay/" + id
}

func sessionBody(order, key, back string) string {
	return `{"orderId":"` + order + `","amount":55000,"currency":"KRW","seconds":60,"idempotencyKey":"` + key + `","returnUrl":"` + back + `"}`
}

// visit requests a page as a browser does. With a choice it submits the form.
func (p *provider) visit(ctx context.Context, path, choice string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if choice != "" {
		req = httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(url.Values{"choice": {choice}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, req)
	return rec
}

func TestPageShowsThePayment(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "ledger"))
	path := p.openPage(t, "k")
	en := p.visit(t.Context(), path, "", "Accept-Language", "de, en-GB;q=0.8, ko;q=0.5")
	require.Equal(t, http.StatusOK, en.Code)
	for _, text := range []string{`lang="en"`, "shop.test", "55,000 KRW", `value="approve"`, `value="decline"`, `value="slow"`, `value="stay"`, `value="back"`} {
		require.Contains(t, en.Body.String(), text)
	}
	require.NotContains(t, en.Body.String(), "script")
	require.NotContains(t, en.Body.String(), "ZgotmplZ", "no value is blocked by the template")
	policy := en.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "form-action 'self' https://shop.test;")
	ko := p.visit(t.Context(), path+"?lang=ko", "")
	require.Contains(t, ko.Body.String(), "결제하기")
	require.Contains(t, p.visit(t.Context(), path, "", "Accept-Language", "ko-KR").Body.String(), "결제하기")
	require.Equal(t, http.StatusNotFound, p.visit(t.Context(), "/pay/unknown", "").Code)
	require.Equal(t, http.StatusNotFound, p.visit(t.Context(), "/pay/unknown", "approve").Code)
	require.Equal(t, http.StatusBadRequest, p.visit(t.Context(), path, "steal").Code)
}

func TestPageEscapes(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "ledger"))
	_, s := p.call(t.Context(), http.MethodPost, "/v1/sessions", sessionBody("<b>o</b>", "k", shop))
	id, _ := s["sessionId"].(string)
	page := p.visit(t.Context(), "/pay/"+id, "").Body.String()
	require.Contains(t, page, "&lt;b&gt;o&lt;/b&gt;")
	require.NotContains(t, page, "<b>")
}

// A page makes one key and redirects to the session's return address. It charges nothing.
func TestPageIsUsedOnce(t *testing.T) {
	t.Parallel()
	for choice, prefix := range map[string]string{"approve": "ok-", "decline": "decline-", "slow": "slow-"} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := start(t, filepath.Join(t.TempDir(), "ledger"))
				path := p.openPage(t, "k")
				// A return address in the query of the page is ignored.
				first := p.visit(t.Context(), path+"?returnUrl=https://evil.test/", choice)
				require.Equal(t, http.StatusSeeOther, first.Code)
				location := first.Header().Get("Location")
				require.True(t, strings.HasPrefix(location, shop+"&paymentKey="+prefix), location)
				again := p.visit(t.Context(), path, choice)
				require.Equal(t, http.StatusGone, again.Code)
				require.Contains(t, again.Body.String(), "used already")
				require.Contains(t, again.Body.String(), `href="https://shop.test/back?orderId=o&amp;token=t"`)
				require.Equal(t, http.StatusGone, p.visit(t.Context(), path, "").Code)
				_, s := p.call(t.Context(), http.MethodGet, "/v1/sessions/"+strings.TrimPrefix(path, "/pay/"), "")
				require.Equal(t, "USED", s["state"])
				require.True(t, strings.HasSuffix(location, s["paymentKey"].(string)))
				require.Nil(t, p.status(t, "o"), "nothing is charged")
				synctest.Wait()
				require.Equal(t, []any{"session.completed"}, []any{p.hooks.received()[0]["type"]})
				require.Len(t, p.hooks.received(), 1)
			})
		})
	}
}

// A payer who has paid and does not go back has paid. One who goes back unpaid may pay later.
func TestPageWithoutTheRedirect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, filepath.Join(t.TempDir(), "ledger"))
		path := p.openPage(t, "k")
		back := p.visit(t.Context(), path, "back")
		require.Equal(t, http.StatusSeeOther, back.Code)
		require.Equal(t, shop, back.Header().Get("Location"))
		require.Equal(t, http.StatusOK, p.visit(t.Context(), path, "").Code)
		stay := p.visit(t.Context(), path, "stay")
		require.Equal(t, http.StatusOK, stay.Code)
		require.NotContains(t, stay.Body.String(), "href=\"https://shop.test")
		_, s := p.call(t.Context(), http.MethodGet, "/v1/sessions/"+strings.TrimPrefix(path, "/pay/"), "")
		require.Equal(t, "USED", s["state"])
	})
}

// The key of a page charges the page's order alone, also after a restart. Other keys are good for any
// order.
func TestKeyOfAPageIsBoundToItsOrder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	p := start(t, file)
	page := p.visit(t.Context(), p.openPage(t, "k"), "approve")
	_, key, found := strings.Cut(page.Header().Get("Location"), "paymentKey=")
	require.True(t, found)
	p.stop()
	p = start(t, file)
	code, answer := p.charge(t, "another", key)
	require.Equal(t, http.StatusPaymentRequired, code)
	require.Equal(t, "KEY_OF_ANOTHER_ORDER", answer["declineCode"])
	code, _ = p.call(t.Context(), http.MethodPost, "/v1/charges",
		`{"paymentKey":"`+key+`","orderId":"o","amount":54999,"currency":"KRW","idempotencyKey":"less"}`)
	require.Equal(t, http.StatusPaymentRequired, code, "another amount than on the page")
	require.Equal(t, []any{"DECLINED", "DECLINED"}, []any{p.status(t, "another"), p.status(t, "o")})
	code, _ = p.charge(t, "o", key)
	require.Equal(t, http.StatusOK, code)
	for _, order := range []string{"another", "third"} {
		code, _ = p.charge(t, order, "ok-1")
		require.Equal(t, http.StatusOK, code)
	}
}

// On a page nothing can be chosen after its time or after a void, even if the sandbox restarts.
func TestPageEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger")
		p := start(t, file)
		path := p.openPage(t, "k")
		time.Sleep(59 * time.Second) // in simulated time
		p.stop()
		p = start(t, file)
		require.Equal(t, path, p.openPage(t, "k"), "the key repeats the session")
		require.Equal(t, http.StatusOK, p.visit(t.Context(), path, "").Code)
		time.Sleep(time.Second)
		late := p.visit(t.Context(), path, "approve")
		require.Equal(t, http.StatusGone, late.Code)
		require.Contains(t, late.Body.String(), "time to pay on this page is over")

		path = p.openPage(t, "k2")
		code, _ := p.call(t.Context(), http.MethodPost, "/v1/charges/o/void", `{"idempotencyKey":"v"}`)
		require.Equal(t, http.StatusOK, code)
		ended := p.visit(t.Context(), path, "approve")
		require.Equal(t, http.StatusGone, ended.Code)
		require.Contains(t, ended.Body.String(), "The shop has ended this payment")
	})
}

func TestSessionsAreChecked(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "ledger"))
	for _, address := range []string{"", "javascript:alert(1)", "/back", "https://a;b/", "https://user@shop.test/", "//shop.test/", "https://shop.test/a b"} {
		code, _ := p.call(t.Context(), http.MethodPost, "/v1/sessions", sessionBody("o", "k", address))
		require.Equal(t, http.StatusBadRequest, code, address)
	}
	p.openPage(t, "k")
	code, _ := p.call(t.Context(), http.MethodPost, "/v1/sessions", sessionBody("o", "k", "https://evil.test/"))
	require.Equal(t, http.StatusUnprocessableEntity, code, "the key is that of another request")
}
