package toss

import (
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"urr.guru/services/payment/fakes"
)

//go:embed page.html
var pageSource string

//go:embed sdk.js
var script []byte

//nolint:gochecknoglobals // a constant
var page = template.Must(template.New("page").Parse(pageSource))

const maxBody = 64 << 10

// Request opens a payment, as in docs.tosspayments.com/sdk/v2/js#paymentrequestpayment.
type Request struct {
	ClientKey string `json:"clientKey"`
	Method    string `json:"method"`
	Amount    struct {
		Currency string `json:"currency"`
		Value    int64  `json:"value"`
	} `json:"amount"`
	OrderID      string `json:"orderId"`
	OrderName    string `json:"orderName"`
	SuccessURL   string `json:"successUrl"`
	FailURL      string `json:"failUrl"`
	WindowTarget string `json:"windowTarget"` // self: the page is opened in the same window
}

func (s *Server) handlePages() {
	s.mux.HandleFunc("GET /v2/standard", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(script)
	})
	s.mux.HandleFunc("POST /sdk/payments", s.open)
	s.mux.HandleFunc("GET /window/{paymentKey}", s.show)
	s.mux.HandleFunc("POST /window/{paymentKey}", s.choose)
}

// refusalOf returns the error code with which a request is refused; empty: it is accepted.
func (s *Server) refusalOf(q Request) string {
	foreign := func(r rune) bool { return !strings.ContainsRune(orderPattern, r) }
	switch {
	case q.ClientKey != s.opts.ClientKey:
		return "INVALID_CLIENT_KEY"
	case len(q.OrderID) < 6 || len(q.OrderID) > 64 || strings.ContainsFunc(q.OrderID, foreign):
		return "INVALID_ORDER_ID"
	case q.OrderName == "" || utf8.RuneCountInString(q.OrderName) > 100:
		return "INVALID_ORDER_NAME"
	case q.Method != "CARD" || q.WindowTarget != "self" || q.Amount.Currency != "KRW" || q.Amount.Value <= 0:
		return "INVALID_PARAMETER"
	case origin(q.SuccessURL) == "":
		return "INVALID_SUCCESS_URL"
	case origin(q.FailURL) == "":
		return "INVALID_FAIL_URL"
	}
	return ""
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Open opens a payment. code is the error code of a refusal.
func (s *Server) Open(q Request) (p Payment, code string) {
	if code := s.refusalOf(q); code != "" {
		return Payment{}, code
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := &Payment{
		PaymentKey: "tgen_" + rand.Text(), OrderID: q.OrderID, OrderName: q.OrderName, Currency: q.Amount.Currency, TotalAmount: q.Amount.Value,
		PartialCancelable: !s.opts.WholeOnly, Secret: "ps_" + rand.Text(), RequestedAt: stamp(s.opts.Now()), successURL: q.SuccessURL, failURL: q.FailURL,
	}
	s.payments[opened.PaymentKey] = opened
	s.orders[q.OrderID] = append(s.orders[q.OrderID], opened)
	s.setStatus(opened, Ready)
	return *opened, ""
}

func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	var q Request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || json.Unmarshal(body, &q) != nil {
		answer(w, refusal("INVALID_PARAMETER"))
		return
	}
	p, code := s.Open(q)
	if code != "" {
		answer(w, refusal(code))
		return
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	answer(w, fakes.JSON(http.StatusOK, map[string]string{"url": scheme + r.Host + "/window/" + p.PaymentKey}))
}

func answer(w http.ResponseWriter, a fakes.Reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may have left
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.current(r.PathValue("paymentKey"))
	if p == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	// A redirect after the form is sent counts as form-action too.
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self' "+origin(p.successURL)+" "+origin(p.failURL)+"; frame-ancestors 'none'")
	_ = page.Execute(w, p) // the client may have left
}

// choose handles the buyer's choice on the page, and sends the buyer back to the shop.
func (s *Server) choose(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	location, ok := s.Choose(r.PathValue("paymentKey"), r.PostFormValue("choice"))
	if !ok || location == "" {
		http.Redirect(w, r, r.URL.Path, http.StatusSeeOther) // the page shows the state
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, location, http.StatusSeeOther)
}

// Choose makes a buyer's choice on the page of a payment: pay, decline (the confirmation will be
// declined), stay (pay, and do not go back) or back. It returns the address to which the buyer
// goes, empty for none; ok is false if nothing can be chosen. The address is as in
// docs.tosspayments.com/guides/v2/payment-window/integration: without paying, it contains no order,
// and the payment does not change.
func (s *Server) Choose(paymentKey, choice string) (to string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.current(paymentKey)
	switch {
	case p == nil || p.Status != Ready:
		return "", false
	case choice == "back":
		return withParams(p.failURL, url.Values{"code": {"PAY_PROCESS_CANCELED"}, "message": {"사용자가 결제를 취소하였습니다"}}), true
	case choice == "decline":
		p.declines = "REJECT_CARD_PAYMENT"
	case choice != "pay" && choice != "stay":
		return "", false
	}
	s.setStatus(p, InProgress)
	if choice == "stay" {
		return "", true
	}
	return withParams(p.successURL, url.Values{
		"paymentType": {"NORMAL"}, "paymentKey": {p.PaymentKey}, "orderId": {p.OrderID}, "amount": {strconv.FormatInt(p.TotalAmount, 10)},
	}), true
}

// withParams adds parameters to an address.
func withParams(address string, params url.Values) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += params.Encode()
	return u.String()
}
