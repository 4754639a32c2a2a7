package stripe_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
)

// A request that Stripe refuses is refused for good. Before it has begun a call, it refuses nothing.
func TestOpenIsRefused(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := payment.Payment{ID: uuid.New(), OrderID: "o-1", Amount: 49, Currency: "KRW", Description: title, ExpiresAt: b.clock.Now()}
	_, err := b.Open(t.Context(), p)
	refused := requireNotTaken(t, err)
	require.Equal(t, "amount_too_small", refused.Code)
	for body, code := range map[string]string{
		`{"error": {"type": "invalid_request_error", "message": "Invalid currency: xyz", "param": "currency"}}`:     "currency",
		`{"error": {"type": "invalid_request_error", "code": "testmode_charges_only", "message": "not activated"}}`: "testmode_charges_only",
	} {
		_, err := b.answering(http.StatusBadRequest, body).Open(t.Context(), p)
		require.Equal(t, code, requireNotTaken(t, err).Code)
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusConflict} {
		_, err := b.answering(status, `{"error": {"type": "invalid_request_error"}}`).Open(t.Context(), p)
		var refused *payment.NotTakenError
		require.False(t, err == nil || errors.As(err, &refused), "%d", status)
	}
}

// Whatever the call, an answer that refuses the key says so. A proxy's answer does not.
func TestKeyIsRefused(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.authorized()
	wrong := b.client(b.url, "sk_test_another")
	restricted := b.answering(http.StatusForbidden, `{"error": {"type": "invalid_request_error", "message": "The key does not have the permissions"}}`)
	unopened := p
	unopened.ID = uuid.New()
	for _, c := range []payment.Provider{wrong, restricted} {
		_, err := c.Open(t.Context(), unopened)
		require.ErrorIs(t, err, payment.ErrKeyRefused)
		_, err = c.Charge(t.Context(), p, payment.Outcome{})
		require.ErrorIs(t, err, payment.ErrKeyRefused)
		_, err = c.Ask(t.Context(), p)
		require.ErrorIs(t, err, payment.ErrKeyRefused)
	}
	for _, body := range []string{"<html>", `{"error": "forbidden"}`, `{"error": {"message": "forbidden"}}`} {
		_, err := b.answering(http.StatusForbidden, body).Open(t.Context(), p)
		require.Error(t, err)
		require.NotErrorIs(t, err, payment.ErrKeyRefused)
	}
	b.asks(p, payment.Authorized)
}

func requireNotTaken(t *testing.T, err error) *payment.NotTakenError {
	t.Helper()
	var refused *payment.NotTakenError
	require.ErrorAs(t, err, &refused)
	return refused
}
