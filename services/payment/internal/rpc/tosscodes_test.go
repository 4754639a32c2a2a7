package rpc_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// asksFor makes Toss answer calls whose path has the suffix with an error code; empty: none.
func (s *tossShop) asksFor(suffix, code string) {
	s.answer = func(r *http.Request) *http.Response {
		if code != "" && strings.HasSuffix(r.URL.Path, suffix) {
			r.Header.Set("TossPayments-Test-Code", code)
		}
		return nil
	}
}

// answers makes all calls whose path has the suffix get an answer that Toss does not keep.
func (s *tossShop) answers(suffix string, status int, body string) {
	s.answer = func(r *http.Request) *http.Response {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return nil
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(body)), Request: r}
	}
}

// untilDeclined sweeps every second, as in production, and returns after how long the payment is
// DECLINED. Until then its claim is prolonged.
func (s *tossShop) untilDeclined(ref string, status func() string) time.Duration {
	s.t.Helper()
	began := s.clock.Now()
	for status() != "DECLINED" {
		passed := s.clock.Now().Sub(began)
		require.Less(s.t, passed, time.Hour)
		require.True(s.t, passed == 0 || s.tickets.Hold(ref).ExpiresAt.After(s.clock.Now()), "the places are kept, after %s", passed)
		s.sweep(5 * time.Second)
		s.service.ExtendDue(s.t.Context())
	}
	return s.clock.Now().Sub(began)
}

// A confirmation that is refused for good ends at once. Toss repeats any other answered error under
// the key, so nothing more is sent, and 15 min after the first one nothing can be charged any more.
func TestTossRepeatsItsAnswer(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		confirms int
		least    time.Duration
		most     time.Duration
	}{
		"NOT_SUPPORTED_INSTALLMENT_PLAN_CARD_OR_MERCHANT": {1, 0, 10 * time.Second},
		"A_NEW_CODE":                        {2, 15 * time.Minute, 16 * time.Minute},
		"FAILED_INTERNAL_SYSTEM_PROCESSING": {2, 15 * time.Minute, 16 * time.Minute},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := setupToss(t)
			s.tickets.Lengthen()
			s.asksFor("/confirm", code)
			p, ref := s.returned()
			lasted := s.untilDeclined(ref, func() string { return s.get(p).GetStatus() })
			require.Equal(t, want.confirms, s.toss.Count(tossfake.Confirms))
			require.GreaterOrEqual(t, lasted, want.least)
			require.LessOrEqual(t, lasted, want.most)
			s.sweep(10 * time.Second)
			require.Empty(t, s.tickets.Hold(ref).Payment, "the places are free")
			require.Zero(t, s.charges(p))
		})
	}
}

// An error that Toss keeps although it has charged is found by a look-up, even if that shows the
// payment only minutes after the last confirmation.
func TestTossKeepsAnErrorOfACharge(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	s.tickets.Lengthen()
	s.toss.Inject(tossfake.Confirms, fakes.Broken)
	p, ref := s.returned()
	key := s.toss.Of(p.GetOrderId())[0].PaymentKey
	s.answers("/v1/payments/"+key, http.StatusNotFound, `{"code":"NOT_FOUND_PAYMENT","message":"?"}`)
	for range 40 {
		s.sweep(20 * time.Second)
		s.service.ExtendDue(t.Context())
	}
	require.Equal(t, "PENDING", s.get(p).GetStatus())
	s.answer = nil
	s.becomes(p, "CONFIRMED")
	require.Equal(t, p.GetPaymentId(), s.tickets.Hold(ref).Payment)
	require.Equal(t, 2, s.toss.Count(tossfake.Confirms))
	require.Equal(t, 1, s.charges(p))
}

// What is no answer to the confirmation does not keep it from being sent again.
func TestTossHasNotBegun(t *testing.T) {
	t.Parallel()
	for body, status := range map[string]int{
		`{"code":"IDEMPOTENT_REQUEST_PROCESSING","message":"?"}`: http.StatusConflict,
		`{"code":"FORBIDDEN_CONSECUTIVE_REQUEST","message":"?"}`: http.StatusForbidden,
		`{"code":"SLOW_DOWN","message":"?"}`:                     http.StatusTooManyRequests,
		`{}`:                                                     http.StatusBadGateway, `<html>`: http.StatusServiceUnavailable,
	} {
		s := setupToss(t)
		s.tickets.Lengthen()
		s.answers("/confirm", status, body)
		p, _ := s.returned()
		for range 20 {
			s.sweep(10 * time.Second)
		}
		require.Equal(t, "PENDING", s.get(p).GetStatus(), body)
		s.answer = nil
		s.becomes(p, "CONFIRMED")

		// A refund is sent again under the same key.
		if strings.Contains(body, "FORBIDDEN") {
			continue // Toss may keep it under the key of a refund
		}
		s.tickets.Issue(p.GetPaymentId(), paymenttest.Ticket{ID: uuid.NewString(), Paid: 20000})
		s.answers("/cancel", status, body)
		s.ask(p, payment.ByUser, "k", 0)
		for range 40 {
			s.sweep(10 * time.Minute)
		}
		require.Equal(t, "PENDING", s.refund(p, "USER").status, body)
		s.answer = nil
		for range 10 {
			s.sweep(5 * time.Minute)
		}
		require.Equal(t, 1, s.untilRefund(p, "USER", "DONE").gen, body)
	}
}

// A buyer who brings back the key of another order is not charged, and the payment ends.
func TestTossKeyOfAnotherOrder(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	s.tickets.Lengthen()
	paid := s.paid()
	p, ref := s.prepared()
	params := s.choose(p, "pay")
	params["paymentKey"] = s.toss.Of(paid.GetOrderId())[0].PaymentKey
	_, err := s.comeBack(params)
	require.NoError(t, err)
	require.LessOrEqual(t, s.untilDeclined(ref, func() string { return s.get(p).GetStatus() }), 16*time.Minute)
	require.Zero(t, s.charges(p))
	s.requireGiven(paid, 0)
}

// A refund that Toss refuses again and again ends after three keys, and during trouble of Toss after
// two hours. The tickets that a user or an operator gave back are valid again, other refunds are HELD.
func TestTossRefusesRefundsAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, cause, status string
		calls               int
		most                time.Duration
	}{
		{"EXCEED_CANCEL_AMOUNT_DISCOUNT_AMOUNT", "USER", "REFUSED", 1, time.Minute},
		{"A_NEW_CODE", "USER", "REFUSED", 3, 10 * time.Minute},
		{"A_NEW_CODE", "COMPENSATION", "HELD", 3, 10 * time.Minute},
		{"EXCEED_CANCEL_LIMIT", "USER", "REFUSED", 35, 135 * time.Minute}, // two pauses more than two hours,
	} {
		t.Run(c.code+" "+c.cause, func(t *testing.T) {
			t.Parallel()
			s := setupToss(t)
			p := s.paid()
			s.asksFor("/cancel", c.code)
			if c.cause == "USER" {
				s.ask(p, payment.ByUser, "k1", 0)
			} else {
				s.reject(p, "rejected")
			}
			began := s.clock.Now()
			for range 24 * 360 {
				if s.sweep(10 * time.Second); s.refund(p, c.cause).status == c.status {
					break
				}
			}
			r := s.refund(p, c.cause)
			require.Equal(t, c.status, r.status)
			require.Equal(t, c.code, r.reason)
			require.LessOrEqual(t, s.clock.Now().Sub(began), c.most)
			require.LessOrEqual(t, s.toss.Count(tossfake.Cancels), c.calls, "the pauses grow")
			s.requireGiven(p, 0)
			if c.cause == "USER" {
				s.sweep(10 * time.Second)
				require.Equal(t, "VALID", s.tickets.Of(p.GetPaymentId())[0].Status)
				return
			}
			s.answer = nil
			_, err := s.service.RetryRefund(t.Context(), uuid.MustParse(r.id), nil)
			require.NoError(t, err)
			s.untilRefund(p, c.cause, "DONE")
		})
	}
}
