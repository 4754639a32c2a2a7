package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/toss"
)

// tossHook returns the body of a webhook as Toss sends it, and as anybody can send it.
func tossHook(t *testing.T, orderID, status string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"eventType": "PAYMENT_STATUS_CHANGED", "data": map[string]string{"orderId": orderID, "status": status}})
	require.NoError(t, err)
	return body
}

// lookups returns how often Toss was asked about orders.
func (s *tossShop) lookups() int {
	return s.toss.Count(tossfake.Lookups) + s.toss.Count(tossfake.KeyLookups)
}

// Whoever knows the orders of ended payments, such as their payers, cannot make the sweeper ask about
// them. A late charge is found by the looks after the end, and at night.
func TestStrangersHintsAboutEndedPaymentsCostNothing(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.returned()
	_, err := s.cancel(p, user)
	require.NoError(t, err)
	s.becomes(p, "EXPIRED")
	s.sweep(time.Second)
	asked := s.lookups()
	for range 20 {
		s.hook(tossHook(t, p.GetOrderId(), "DONE"))
		s.hook(tossHook(t, p.GetOrderId(), "CANCELED"))
		s.sweep(6 * time.Second)
	}
	require.Equal(t, asked, s.lookups())
	require.Zero(t, s.unknownOrders.Load(), "it is known")
	params := s.choose(p, "pay")
	require.Empty(t, s.toss.Confirm(params["paymentKey"]), "charged late")
	s.hook(tossHook(t, p.GetOrderId(), "DONE"))
	require.NoError(t, s.store().Hint(t.Context(), p.GetOrderId(), false), "as the nightly comparison hints")
	s.becomes(p, "CONFIRMED")
}

// Of a paid order anybody may announce a cancellation: Toss is asked once in ten minutes.
func TestStrangersHintsAboutPaidOrders(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p := s.paid()
	s.sweep(time.Hour)
	asked := s.lookups()
	for range 100 { // ten minutes
		s.hook(tossHook(t, p.GetOrderId(), "CANCELED"))
		s.sweep(6 * time.Second)
	}
	require.LessOrEqual(t, s.lookups()-asked, 2)
	require.Greater(t, s.lookups(), asked)
}

// An order id that anybody may have sent is looked up and logged only if it has the form of ours, and
// the lines are limited.
func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		unknown := 0
		client := toss.NewClient("test_sk", toss.Options{URL: "http://toss.test", PageURL: "https://pay.test/toss"})
		defer client.Close()
		service := payment.New(noOrders{}, nil, payment.Providers{Default: toss.Name, ByName: map[string]payment.Provider{toss.Name: client}},
			slog.New(slog.NewJSONHandler(&out, nil)), payment.Options{Observe: payment.Observer{UnknownOrder: func() { unknown++ }}})
		orders := []string{"x\x00y", strings.Repeat("A", 250_000), "{" + uuid.NewString() + "}", strings.ToUpper(uuid.NewString()), uuid.NewString()}
		for range 100 {
			for _, order := range orders {
				require.NoError(t, service.Webhook(t.Context(), toss.Name, nil, tossHook(t, order, "DONE")))
			}
		}
		require.Equal(t, 500, unknown)
		require.Equal(t, 10, strings.Count(out.String(), "\n"), "lines in a second")
		require.Less(t, out.Len(), 10*400)
		require.Contains(t, out.String(), orders[4])
		for _, order := range orders[:4] {
			require.NotContains(t, out.String(), order)
		}
	})
}

// noOrders is a store without payments, which nobody may ask about a malformed order.
type noOrders struct{ payment.Stores }

func (noOrders) HintUnsigned(_ context.Context, _, orderID string, _ bool) error {
	if uuid.Validate(orderID) != nil || len(orderID) != 36 || strings.ToLower(orderID) != orderID {
		panic("asked about " + orderID)
	}
	return payment.ErrNotFound
}

// Parameters of an address that anybody can open are checked before they reach the database.
func TestStrangersParametersOfAReturn(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.prepared()
	good := s.choose(p, "pay")
	for name, change := range map[string][2]string{
		"order":        {"order", "x\x00y"},
		"other form":   {"order", strings.ToUpper(p.GetOrderId())},
		"key":          {"paymentKey", "a\x00b"},
		"key with é":   {"paymentKey", "é"},
		"refusal code": {"code", "REJECT_\x00"},
	} {
		params := maps.Clone(good)
		params[change[0]] = change[1]
		switch change[0] {
		case "order":
			params["orderId"] = change[1]
		case "code":
			delete(params, "paymentKey")
		}
		_, err := s.comeBack(params)
		require.ErrorIs(t, err, errs.ErrPaymentNotFound, name)
	}
	_, err := s.comeBack(good)
	require.NoError(t, err)
	s.becomes(p, "CONFIRMED")
}
