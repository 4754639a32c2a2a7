package toss

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"urr.guru/services/payment/fakes"
)

// transaction is a confirmation or a cancellation: /reference#transaction-객체.
type transaction struct {
	TransactionKey string `json:"transactionKey"`
	PaymentKey     string `json:"paymentKey"`
	OrderID        string `json:"orderId"`
	Method         string `json:"method"`
	Status         string `json:"status"`
	Currency       string `json:"currency"`
	Amount         int64  `json:"amount"`
	TransactionAt  string `json:"transactionAt"`

	at time.Time
}

// korea is the time zone of answers, and of requests, which contain none: /reference#거래-조회.
var korea = time.FixedZone("KST", 9*60*60) //nolint:gochecknoglobals // a constant

// The default and the largest number of transactions per page: /reference#거래-조회.
const (
	defaultLimit = 100
	maxLimit     = 5000
)

// recordTransaction records the latest confirmation or cancellation of a payment.
func (s *Server) recordTransaction(p *Payment) {
	amount := p.TotalAmount
	if n := len(p.Cancels); n > 0 {
		p.Cancels[n-1].TransactionKey, amount = p.LastTransactionKey, p.Cancels[n-1].CancelAmount
	}
	s.transactions = append(s.transactions, transaction{
		TransactionKey: p.LastTransactionKey, PaymentKey: p.PaymentKey, OrderID: p.OrderID, Method: "카드", Status: p.Status, Currency: p.Currency,
		Amount: amount, TransactionAt: p.since.In(korea).Format(time.RFC3339), at: p.since,
	})
}

// list returns the transactions of a period, including its last second: /reference#거래-조회.
func (s *Server) list(r *http.Request, _ []byte) fakes.Reply {
	q := r.URL.Query()
	from, err := time.ParseInLocation("2006-01-02T15:04:05", q.Get("startDate"), korea)
	to, errTo := time.ParseInLocation("2006-01-02T15:04:05", q.Get("endDate"), korea)
	limit, errLimit := defaultLimit, error(nil)
	if q.Has("limit") {
		limit, errLimit = strconv.Atoi(q.Get("limit"))
	}
	if err != nil || errTo != nil || errLimit != nil || limit < 1 || limit > maxLimit {
		return refusal("INVALID_REQUEST")
	}
	page := []transaction{}
	after := q.Get("startingAfter")
	if after != "" && !slices.ContainsFunc(s.transactions, func(x transaction) bool { return x.TransactionKey == after }) {
		return refusal("INVALID_TRANSACTION_KEY") // /reference/error-codes#거래-조회
	}
	for _, x := range s.transactions {
		switch {
		case after != "":
			if x.TransactionKey == after {
				after = ""
			}
		case !x.at.Before(from) && x.at.Before(to.Add(time.Second)) && len(page) < limit:
			page = append(page, x)
		}
	}
	return fakes.JSON(http.StatusOK, page)
}
