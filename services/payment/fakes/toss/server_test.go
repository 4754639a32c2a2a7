package toss_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/fakes"
	"urr.guru/services/payment/fakes/toss"
)

const (
	secretKey = "test_sk"
	clientKey = "test_ck"
	order     = "order-1"
)

type shop struct {
	t      *testing.T
	clock  *testkit.Clock
	toss   *toss.Server
	url    string
	header http.Header // the headers of the next calls
}

func newShop(t *testing.T, opts toss.Options) *shop {
	t.Helper()
	s := &shop{t: t, clock: testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), header: http.Header{}}
	opts.Now, opts.ClientKey, opts.SecretKey = s.clock.Now, clientKey, secretKey
	s.toss = toss.NewServer(opts)
	server := httptest.NewServer(s.toss)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// call calls the API, and returns the error code of a refusal.
func (s *shop) call(method, path, key string, body any) (code string, p toss.Payment) {
	s.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(string(raw)))
	require.NoError(s.t, err)
	req.Header = s.header.Clone()
	if req.Header.Get("Authorization") == "" {
		req.SetBasicAuth(secretKey, "")
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	if resp.StatusCode == http.StatusOK {
		require.NoError(s.t, json.Unmarshal(answer, &p))
		return "", p
	}
	var refused toss.Failure
	require.NoError(s.t, json.Unmarshal(answer, &refused))
	return refused.Code, p
}

func (s *shop) confirm(paymentKey, key string) string {
	s.t.Helper()
	code, _ := s.call(http.MethodPost, "/v1/payments/confirm", key, map[string]any{"paymentKey": paymentKey, "orderId": order, "amount": 1000})
	return code
}

func (s *shop) cancel(paymentKey, key string, amount int64) (code string, p toss.Payment) {
	s.t.Helper()
	return s.call(http.MethodPost, "/v1/payments/"+paymentKey+"/cancel", key, map[string]any{"cancelReason": "why", "cancelAmount": amount})
}

func (s *shop) lookup() (code string, p toss.Payment) {
	s.t.Helper()
	return s.call(http.MethodGet, "/v1/payments/orders/"+order, "", nil)
}

func request() toss.Request {
	q := toss.Request{
		ClientKey: clientKey, Method: "CARD", OrderID: order, OrderName: "tickets", SuccessURL: "https://shop.test/back?a=1", FailURL: "https://shop.test/fail",
		WindowTarget: "self",
	}
	q.Amount.Currency, q.Amount.Value = "KRW", 1000
	return q
}

// open opens a payment and makes a choice on its page.
func (s *shop) open(choice string) (paymentKey, location string) {
	s.t.Helper()
	p, code := s.toss.Open(request())
	require.Empty(s.t, code)
	require.Equal(s.t, toss.Ready, p.Status)
	location, ok := s.toss.Choose(p.PaymentKey, choice)
	require.True(s.t, ok)
	return p.PaymentKey, location
}

func newKey() string { return uuid.NewString() }

func TestPaymentEndsByItself(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	ready, code := s.toss.Open(request())
	require.Empty(t, code)
	s.clock.Advance(30*time.Minute - 1)
	require.Equal(t, toss.Ready, s.toss.Of(order)[0].Status)
	require.Equal(t, "NOT_FOUND_PAYMENT_SESSION", s.confirm(ready.PaymentKey, newKey()), "not authenticated")
	s.clock.Advance(1)
	require.Equal(t, toss.Expired, s.toss.Of(order)[0].Status)
	_, ok := s.toss.Choose(ready.PaymentKey, "pay")
	require.False(t, ok)

	paid, _ := s.open("pay")
	s.clock.Advance(10 * time.Minute)
	require.Equal(t, "NOT_FOUND_PAYMENT_SESSION", s.confirm(paid, newKey()))
	require.Len(t, s.toss.Webhooks.Take(), 2)
	code, _ = s.lookup()
	require.Equal(t, "NOT_FOUND_PAYMENT", code)
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	first, _ := s.open("pay")
	second, _ := s.open("pay")
	code, _ := s.lookup()
	require.Equal(t, "NOT_FOUND_PAYMENT", code, "only confirmed ones are shown")
	require.Equal(t, "NOT_FOUND_PAYMENT", s.confirm("unknown", newKey()))
	key := newKey()
	require.Empty(t, s.confirm(first, key))
	require.Empty(t, s.confirm("unknown", key), "the key decides, whatever the body is")
	require.Equal(t, "ALREADY_PROCESSED_PAYMENT", s.confirm(first, newKey()))
	require.Empty(t, s.confirm(second, newKey()), "of an order that was confirmed: the shop's fault")
	s.clock.Advance(15 * 24 * time.Hour)
	require.Equal(t, "ALREADY_PROCESSED_PAYMENT", s.confirm(first, key), "the key is forgotten")

	declined, _ := s.open("decline")
	key = newKey()
	for range 2 {
		require.Equal(t, "REJECT_CARD_PAYMENT", s.confirm(declined, key))
	}
	require.Equal(t, toss.Aborted, s.toss.Of(order)[2].Status)
	wrong, _ := s.open("pay")
	code, _ = s.call(http.MethodPost, "/v1/payments/confirm", newKey(), map[string]any{"paymentKey": wrong, "orderId": order, "amount": 1})
	require.Equal(t, "INVALID_REQUEST", code)
}

func TestUnapprovedPaymentsAreShown(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{Rules: toss.Rules{ShowsUnapproved: true}})
	first, _ := s.open("pay")
	second, _ := s.open("back")
	_, p := s.lookup()
	require.Equal(t, second, p.PaymentKey, "the latest one")
	require.Equal(t, toss.Ready, p.Status)
	require.Empty(t, s.confirm(first, newKey()))
	_, p = s.lookup()
	require.Equal(t, first, p.PaymentKey)
	require.Equal(t, toss.Done, p.Status)
}

func TestCancellations(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	paid, _ := s.open("pay")
	code, _ := s.cancel(paid, newKey(), 1)
	require.Equal(t, "NOT_CANCELABLE_PAYMENT", code)
	require.Empty(t, s.confirm(paid, newKey()))
	key := newKey()
	for range 2 {
		_, p := s.cancel(paid, key, 400)
		require.Equal(t, toss.PartCanceled, p.Status)
		require.Equal(t, int64(600), p.BalanceAmount)
		require.Len(t, p.Cancels, 1)
	}
	code, _ = s.cancel(paid, newKey(), 601)
	require.Equal(t, "NOT_CANCELABLE_AMOUNT", code)
	require.Empty(t, s.toss.GiveBack(paid, 100))
	_, p := s.cancel(paid, newKey(), 500)
	require.Equal(t, toss.PartCanceled, p.Status, "also when nothing is left")
	require.Equal(t, int64(1000), p.TotalAmount)
	require.Zero(t, p.BalanceAmount)
	code, _ = s.cancel(paid, newKey(), 1)
	require.Equal(t, "ALREADY_CANCELED_PAYMENT", code)
	require.Equal(t, "NOT_FOUND_PAYMENT", s.toss.GiveBack("unknown", 1))

	whole := newShop(t, toss.Options{Rules: toss.Rules{WholeOnly: true}})
	paid, _ = whole.open("pay")
	require.Empty(t, whole.confirm(paid, newKey()))
	code, _ = whole.cancel(paid, newKey(), 1)
	require.Equal(t, "NOT_ALLOWED_PARTIAL_REFUND", code)
	_, p = whole.cancel(paid, newKey(), 0)
	require.Equal(t, toss.Canceled, p.Status)
}

func TestCredentialsAndAskedErrors(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	paid, _ := s.open("pay")
	key := newKey()
	s.header.Set("Authorization", "Basic bm8tY29sb24=")
	require.Equal(t, "INCORRECT_BASIC_AUTH_FORMAT", s.confirm(paid, key))
	s.header.Set("Authorization", "Basic bm86")
	require.Equal(t, "UNAUTHORIZED_KEY", s.confirm(paid, key))
	s.header.Del("Authorization")
	s.header.Set("TossPayments-Test-Code", "FDS_ERROR")
	require.Equal(t, "FDS_ERROR", s.confirm(paid, newKey()))
	s.header.Del("TossPayments-Test-Code")
	s.toss.Inject(toss.Confirms, fakes.Limited)
	require.Equal(t, "FORBIDDEN_CONSECUTIVE_REQUEST", s.confirm(paid, key))
	require.Empty(t, s.confirm(paid, key))
}

// A call by the vendor's script opens the page. From there the buyer is redirected to the shop.
func TestPage(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(path string) (*http.Response, string) {
		resp, err := client.Get(s.url + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp, string(body)
	}
	_, script := get("/v2/standard")
	require.Contains(t, script, "window.TossPayments")
	open := func(q toss.Request) (code, address string) {
		body, err := json.Marshal(q)
		require.NoError(t, err)
		resp, err := client.Post(s.url+"/sdk/payments", "text/plain", strings.NewReader(string(body)))
		require.NoError(t, err)
		require.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"))
		var answer struct{ Code, URL string }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		require.NoError(t, resp.Body.Close())
		return answer.Code, strings.TrimPrefix(answer.URL, s.url)
	}
	for want, change := range map[string]func(*toss.Request){
		"INVALID_CLIENT_KEY":  func(q *toss.Request) { q.ClientKey = "" },
		"INVALID_ORDER_ID":    func(q *toss.Request) { q.OrderID = "a b c d" },
		"INVALID_ORDER_NAME":  func(q *toss.Request) { q.OrderName = strings.Repeat("가", 101) },
		"INVALID_PARAMETER":   func(q *toss.Request) { q.WindowTarget = "iframe" },
		"INVALID_SUCCESS_URL": func(q *toss.Request) { q.SuccessURL = "/back" },
		"INVALID_FAIL_URL":    func(q *toss.Request) { q.FailURL = "javascript:1" },
	} {
		q := request()
		change(&q)
		code, _ := open(q)
		require.Equal(t, want, code)
	}
	for choice, want := range map[string]url.Values{
		"pay":  {"a": {"1"}, "paymentType": {"NORMAL"}, "paymentKey": nil, "orderId": {order}, "amount": {"1000"}},
		"back": {"code": {"PAY_PROCESS_CANCELED"}, "message": {"사용자가 결제를 취소하였습니다"}},
	} {
		_, address := open(request())
		resp, page := get(address)
		require.Contains(t, page, `id="pay"`)
		require.Contains(t, resp.Header.Get("Content-Security-Policy"), "form-action 'self' https://shop.test ")
		resp, err := client.PostForm(s.url+address, url.Values{"choice": {choice}})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusSeeOther, resp.StatusCode)
		location, err := resp.Location()
		require.NoError(t, err)
		require.Equal(t, "shop.test", location.Host)
		got := location.Query()
		if choice == "pay" {
			require.Equal(t, strings.TrimPrefix(address, "/window/"), got.Get("paymentKey"))
			got["paymentKey"] = nil
		}
		require.Equal(t, want, got)
	}
	_, address := open(request())
	resp, err := client.PostForm(s.url+address, url.Values{"choice": {"stay"}})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, page := get(address)
	require.Contains(t, page, toss.InProgress)
	require.NotContains(t, page, `id="pay"`)
	resp, _ = get("/window/unknown")
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestControl(t *testing.T) {
	t.Parallel()
	s := newShop(t, toss.Options{})
	do := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, string(answer)
	}
	paid, _ := s.open("pay")
	_, shown := do(http.MethodGet, "/control/orders", "")
	var list []toss.Payment
	require.NoError(t, json.Unmarshal([]byte(shown), &list))
	require.Equal(t, paid, list[0].PaymentKey)
	status, _ := do(http.MethodPut, "/control/rules", `{"showsUnapproved": true}`)
	require.Equal(t, http.StatusNoContent, status)
	_, p := s.lookup()
	require.Equal(t, toss.InProgress, p.Status)
	status, _ = do(http.MethodPut, "/control/faults", `{"lost": 2}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Empty(t, s.confirm(paid, newKey()))
	status, _ = do(http.MethodPost, "/control/refund-by-hand", `{"paymentKey": "`+paid+`", "amount": 1}`)
	require.Equal(t, http.StatusNoContent, status)
	status, _ = do(http.MethodPost, "/control/refund-by-hand", `{"paymentKey": "`+paid+`", "amount": 1000}`)
	require.Equal(t, http.StatusBadRequest, status)
	_, p = s.lookup()
	require.Equal(t, int64(999), p.BalanceAmount)
}
