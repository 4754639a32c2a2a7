// Package toss is a fake of Toss Payments: its API, its script for pages, its page and its
// webhooks. Comments cite the pages of the vendor's reference, below https://docs.tosspayments.com.
// Where the reference is silent, the fake does what is worst for a shop.
package toss

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"urr.guru/services/payment/fakes"
)

// The names of the calls, for Inject, Block and Count.
const (
	Confirms   = "POST /v1/payments/confirm"
	Lookups    = "GET /v1/payments/orders/{orderId}"
	KeyLookups = "GET /v1/payments/{paymentKey}"
	Cancels    = "POST /v1/payments/{paymentKey}/cancel"
	Listings   = "GET /v1/transactions"
)

// From /reference#결제-승인, /reference/using-api/webhook-events#payment_status_changed, and
// /reference/using-api/authorization#멱등키-헤더 (keyLife).
const (
	readyFor     = 30 * time.Minute // from opening until the buyer has paid on the page
	inProgress   = 10 * time.Minute // from then on, until the shop confirms
	keyLife      = 15 * 24 * time.Hour
	testCode     = "Tosspayments-Test-Code" // /reference/using-api/authorization: has the error to answer, with a test key
	testKey      = "test_"
	orderPattern = "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// The statuses of a payment: /reference#payment-객체.
const (
	Ready        = "READY"
	InProgress   = "IN_PROGRESS"
	Done         = "DONE"
	Canceled     = "CANCELED"
	PartCanceled = "PARTIAL_CANCELED"
	Aborted      = "ABORTED"
	Expired      = "EXPIRED"
)

// Payment is one of the payments of an order: /reference#payment-객체.
type Payment struct {
	PaymentKey         string   `json:"paymentKey"`
	OrderID            string   `json:"orderId"`
	OrderName          string   `json:"orderName"`
	Status             string   `json:"status"`
	Currency           string   `json:"currency"`
	TotalAmount        int64    `json:"totalAmount"`
	BalanceAmount      int64    `json:"balanceAmount"`
	PartialCancelable  bool     `json:"isPartialCancelable"`
	Secret             string   `json:"secret"`
	RequestedAt        string   `json:"requestedAt"`
	LastTransactionKey string   `json:"lastTransactionKey"`
	Cancels            []Cancel `json:"cancels"`
	Failure            *Failure `json:"failure"`
	Receipt            *Receipt `json:"receipt"` // null until it is confirmed

	successURL, failURL string
	since               time.Time // when its status changed last
	declines            string    // the code with which its confirmation will fail
}

// Cancel is one cancellation of a payment, whole or in part.
type Cancel struct {
	TransactionKey string `json:"transactionKey"`
	CancelAmount   int64  `json:"cancelAmount"`
	CancelReason   string `json:"cancelReason"`
	CancelStatus   string `json:"cancelStatus"`
	CanceledAt     string `json:"canceledAt"`
}

// Receipt is the buyer's receipt.
type Receipt struct {
	URL string `json:"url"`
}

// Failure is an error: /reference/using-api/req-res#에러-객체.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Captured reports whether money was taken for the payment.
func (p *Payment) Captured() bool {
	return p.Status == Done || p.Status == Canceled || p.Status == PartCanceled
}

// Options are the options of a Server.
type Options struct {
	Now                  func() time.Time
	ClientKey, SecretKey string
	Rules
}

// Server is the fake. Calls makes its calls go wrong, Webhooks sends its webhooks.
type Server struct {
	*fakes.Calls

	Webhooks *fakes.Webhooks
	opts     Options
	mux      *http.ServeMux

	mu       sync.Mutex
	payments map[string]*Payment
	orders   map[string][]*Payment // oldest first
	// transactions has all confirmations and cancellations, oldest first.
	transactions []transaction
}

// NewServer makes a fake without payments.
func NewServer(opts Options) *Server {
	s := &Server{opts: opts, mux: http.NewServeMux(), payments: map[string]*Payment{}, orders: map[string][]*Payment{}}
	// /reference/using-api/authorization: the first answer under a key is repeated, even if it was an
	// error or the body differs.
	s.Calls = fakes.NewCalls(fakes.Options{
		Now: opts.Now, KeyLife: keyLife, Running: refusal("IDEMPOTENT_REQUEST_PROCESSING"),
		Internal: refusal("FAILED_INTERNAL_SYSTEM_PROCESSING"), TooMany: refusal("FORBIDDEN_CONSECUTIVE_REQUEST"),
	})
	// /reference/using-api/webhook-events#웹훅-헤더: webhooks about payments are not signed.
	s.Webhooks = fakes.NewWebhooks(s.Calls, func(_ []byte, at time.Time) map[string]string {
		return map[string]string{
			"tosspayments-webhook-transmission-id": "whtrans_" + rand.Text(), "tosspayments-webhook-transmission-time": stamp(at),
			"tosspayments-webhook-transmission-retried-count": "0",
		}
	})
	s.Handle(s.mux, Confirms, s.authorized(s.confirm))
	s.Handle(s.mux, Lookups, s.authorized(s.lookup))
	s.Handle(s.mux, KeyLookups, s.authorized(s.lookupKey))
	s.Handle(s.mux, Cancels, s.authorized(s.cancel))
	s.Handle(s.mux, Listings, s.authorized(s.list))
	s.handlePages()
	s.control()
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// statuses has the HTTP statuses other than 400, by error code: /reference/error-codes.
var statuses = map[string]int{ //nolint:gochecknoglobals // a constant
	"UNAUTHORIZED_KEY": 401, "INCORRECT_BASIC_AUTH_FORMAT": 403, "REJECT_CARD_PAYMENT": 403, "REJECT_CARD_COMPANY": 403,
	"FORBIDDEN_CONSECUTIVE_REQUEST": 403, "NOT_CANCELABLE_AMOUNT": 403, "NOT_CANCELABLE_PAYMENT": 403, "NOT_ALLOWED_PARTIAL_REFUND": 403,
	"NOT_FOUND_PAYMENT": 404, "NOT_FOUND_PAYMENT_SESSION": 404, "IDEMPOTENT_REQUEST_PROCESSING": 409,
	"FAILED_INTERNAL_SYSTEM_PROCESSING": 500,
}

func refusal(code string) fakes.Reply {
	status, ok := statuses[code]
	if !ok {
		status = http.StatusBadRequest
	}
	return fakes.JSON(status, Failure{Code: code, Message: strings.ToLower(strings.ReplaceAll(code, "_", " "))})
}

// authorized wraps act. It does not call act if the key is wrong, or if testCode asks for an error.
func (s *Server) authorized(act func(r *http.Request, body []byte) fakes.Reply) func(*http.Request, []byte) fakes.Reply {
	return func(r *http.Request, body []byte) fakes.Reply {
		key, password, ok := r.BasicAuth()
		askedCode := r.Header.Get(testCode)
		switch {
		case !ok: // the colon is missing
			return forgotten(refusal("INCORRECT_BASIC_AUTH_FORMAT"))
		case key != s.opts.SecretKey || password != "":
			return forgotten(refusal("UNAUTHORIZED_KEY"))
		case askedCode != "" && strings.HasPrefix(key, testKey):
			return refusal(askedCode)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return act(r, body)
	}
}

func forgotten(a fakes.Reply) fakes.Reply { a.Forgotten = true; return a }

// confirm takes the money of a payment that the buyer has made, even if another payment of its
// order was confirmed before: /reference#결제-승인.
func (s *Server) confirm(_ *http.Request, body []byte) fakes.Reply {
	var q struct {
		PaymentKey string `json:"paymentKey"`
		OrderID    string `json:"orderId"`
		Amount     int64  `json:"amount"`
	}
	if json.Unmarshal(body, &q) != nil {
		return refusal("INVALID_REQUEST")
	}
	p := s.current(q.PaymentKey)
	if p != nil && (p.OrderID != q.OrderID || p.TotalAmount != q.Amount) {
		return refusal("INVALID_REQUEST")
	}
	if code := s.take(p); code != "" {
		return refusal(code)
	}
	return fakes.JSON(http.StatusOK, p)
}

func (s *Server) take(p *Payment) (code string) {
	switch {
	case p == nil:
		return "NOT_FOUND_PAYMENT"
	case p.Status == Expired || p.Status == Ready:
		return "NOT_FOUND_PAYMENT_SESSION"
	case p.Status != InProgress:
		return "ALREADY_PROCESSED_PAYMENT"
	case p.declines != "":
		p.Failure = &Failure{Code: p.declines}
		s.setStatus(p, Aborted)
		return p.declines
	}
	p.BalanceAmount = p.TotalAmount
	p.Receipt = &Receipt{URL: "https://dashboard.tosspayments.com/receipt/redirection?transactionId=" + p.PaymentKey + "&ref=PX"}
	s.setStatus(p, Done)
	return ""
}

// lookup returns a confirmed payment of an order; with ShowsUnapproved, else its latest payment.
func (s *Server) lookup(r *http.Request, _ []byte) fakes.Reply {
	var found *Payment
	for _, p := range s.orders[r.PathValue("orderId")] {
		s.current(p.PaymentKey)
		if p.Captured() || s.opts.ShowsUnapproved && (found == nil || !found.Captured()) {
			found = p
		}
	}
	if found == nil {
		return refusal("NOT_FOUND_PAYMENT")
	}
	return fakes.JSON(http.StatusOK, found)
}

// lookupKey returns a confirmed payment by its key: /reference#paymentkey로-결제-조회.
func (s *Server) lookupKey(r *http.Request, _ []byte) fakes.Reply {
	p := s.current(r.PathValue("paymentKey"))
	if p == nil || !p.Captured() && !s.opts.ShowsUnapproved {
		return refusal("NOT_FOUND_PAYMENT")
	}
	return fakes.JSON(http.StatusOK, p)
}

// cancel gives an amount back, without an amount all that is left: /reference#결제-취소.
func (s *Server) cancel(r *http.Request, body []byte) fakes.Reply {
	var q struct {
		CancelReason string `json:"cancelReason"`
		CancelAmount int64  `json:"cancelAmount"`
	}
	if json.Unmarshal(body, &q) != nil || q.CancelReason == "" || len([]rune(q.CancelReason)) > 200 || q.CancelAmount < 0 {
		return refusal("INVALID_REQUEST")
	}
	p := s.payments[r.PathValue("paymentKey")]
	if p == nil {
		return refusal("NOT_FOUND_PAYMENT")
	}
	if code := s.giveBack(p, q.CancelAmount, q.CancelReason); code != "" {
		return refusal(code)
	}
	return fakes.JSON(http.StatusOK, p)
}

// giveBack cancels an amount of a payment (0: all that is left). code is the error code of a
// refusal. PARTIAL_CANCELED stays even when nothing is left, since no other status follows it
// (/reference/using-api/webhook-events#payment_status_changed).
func (s *Server) giveBack(p *Payment, amount int64, reason string) (code string) {
	if amount == 0 {
		amount = p.BalanceAmount
	}
	switch {
	case p.Captured() && p.BalanceAmount == 0:
		return "ALREADY_CANCELED_PAYMENT"
	case !p.Captured():
		return "NOT_CANCELABLE_PAYMENT"
	case amount > p.BalanceAmount:
		return "NOT_CANCELABLE_AMOUNT"
	case s.opts.WholeOnly && amount < p.BalanceAmount:
		return "NOT_ALLOWED_PARTIAL_REFUND"
	}
	p.BalanceAmount -= amount
	p.Cancels = append(p.Cancels, Cancel{
		CancelAmount: amount, CancelReason: reason, CancelStatus: Done, CanceledAt: stamp(s.opts.Now()),
	})
	status := PartCanceled
	if p.BalanceAmount == 0 && len(p.Cancels) == 1 {
		status = Canceled
	}
	s.setStatus(p, status)
	return ""
}

// current returns a payment; nil: there is none. It first expires the payment if its time is over.
func (s *Server) current(paymentKey string) *Payment {
	p := s.payments[paymentKey]
	if p == nil {
		return nil
	}
	age := s.opts.Now().Sub(p.since)
	if p.Status == Ready && age >= readyFor || p.Status == InProgress && age >= inProgress {
		s.setStatus(p, Expired)
	}
	return p
}

// setStatus changes a payment's status, and sends a webhook unless the status is READY or
// IN_PROGRESS (/reference/using-api/webhook-events#payment_status_changed).
func (s *Server) setStatus(p *Payment, status string) {
	p.Status, p.since, p.LastTransactionKey = status, s.opts.Now(), rand.Text()
	if status == Ready || status == InProgress {
		return
	}
	if p.Captured() {
		s.recordTransaction(p)
	}
	body, err := json.Marshal(map[string]any{"eventType": "PAYMENT_STATUS_CHANGED", "createdAt": stamp(p.since), "data": p})
	if err != nil {
		panic(err) // texts and numbers
	}
	s.Webhooks.Send(body)
}

func stamp(at time.Time) string { return at.Format(time.RFC3339) }
