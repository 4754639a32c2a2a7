package rpc_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// paymentTypes are all that can be paid for.
var paymentTypes = []string{"reservation", "transfer", "membership"}

// prepareWith opens a payment for a new reference that costs amount, with the provider that the
// client names.
func (b *bundle) prepareWith(provider, paymentType string) (*paymentv1.PrepareResponse, error) {
	return b.client.Prepare(b.t.Context(), &paymentv1.PrepareRequest{
		Caller: caller(user, newIdempotencyKey()), PaymentType: paymentType, ReferenceId: b.tickets.Add(user, amount, holdTime), Provider: provider,
	})
}

// allowNone removes the CHECK of the table, so that a test sees what the code does without it.
func (b *bundle) allowNone() { b.exec(`ALTER TABLE payments DROP CONSTRAINT payments_free`) }

// What has a price is paid at a configured provider, whichever name the client sends.
func TestNothingForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, paymentType := range paymentTypes {
		_, err := b.prepareWith(payment.NoProvider, paymentType)
		require.ErrorIs(t, err, errs.ErrInvalidRequest, paymentType)
		for _, name := range []string{"None", "none ", "NONE", "n\u043ene", "bank", "toss"} {
			_, err := b.prepareWith(name, paymentType)
			require.ErrorIs(t, err, errs.ErrProviderUnknown, "%s with %q", paymentType, name)
		}
	}
	require.Zero(t, b.count(`SELECT count(*) FROM payments`))
}

func TestFreePaymentNeedsNoProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, err := b.prepare(b.tickets.Add(user, 0, holdTime), newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "none", p.GetProvider(), "whichever is configured")
	require.Empty(t, p.GetClientParams())
	b.server.Close()
	got, err := b.confirm(p, "free", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// trusting is a payment service that refuses nothing.
type trusting struct {
	paymentv1.UnimplementedPaymentServiceServer
}

func (trusting) Prepare(context.Context, *paymentv1.PrepareRequest) (*paymentv1.PrepareResponse, error) {
	return &paymentv1.PrepareResponse{}, nil
}

// The rules of the request refuse the name without the service and its table.
func TestRequestCannotNameNone(t *testing.T) {
	t.Parallel()
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { paymentv1.RegisterPaymentServiceServer(r, trusting{}) }, withoutTimeout())
	for _, paymentType := range paymentTypes {
		request := &paymentv1.PrepareRequest{Caller: caller(user, "k"), PaymentType: paymentType, ReferenceId: uuid.NewString(), Provider: "sandbox"}
		_, err := paymentv1.NewPaymentServiceClient(conn).Prepare(t.Context(), request)
		require.NoError(t, err)
		request.Provider = payment.NoProvider
		_, err = paymentv1.NewPaymentServiceClient(conn).Prepare(t.Context(), request)
		require.ErrorIs(t, err, errs.ErrInvalidRequest)
	}
}

// The service refuses the name without the rules of the request and the CHECK of the table, and
// confirms no stored payment with a price whose provider charges nothing.
func TestServiceTakesNoPriceWithoutProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.allowNone()
	for _, paymentType := range paymentTypes {
		_, _, err := b.service.Prepare(t.Context(), payment.PrepareRequest{
			Reference: payment.Reference{Type: payment.Type(paymentType), ID: uuid.MustParse(b.tickets.Add(user, amount, holdTime))},
			UserID:    user, Provider: payment.NoProvider, IdempotencyKey: newIdempotencyKey(),
		})
		require.ErrorIs(t, err, payment.ErrProviderUnknown)
		require.Zero(t, b.count(`SELECT count(*) FROM payments`))

		p, err := b.prepareWith("", paymentType)
		require.NoError(t, err)
		b.exec(`UPDATE payments SET provider = 'none'`)
		got, err := b.confirm(p, "anything", newIdempotencyKey())
		require.NoError(t, err)
		require.Equal(t, "DECLINED", got.GetStatus())
		require.Equal(t, "NOT_CHARGED", got.GetDeclineCode())
		require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))

		// A process died before it wrote the outcome: the sweeper finds the payment.
		b.exec(`DELETE FROM outbox`)
		b.exec(`UPDATE payments SET status = 'CONFIRMING', decline_code = '', check_at = confirming_at`)
		b.sweep(0)
		require.Equal(t, "DECLINED", b.get(p).GetStatus())
		require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))
		b.exec(`DELETE FROM payment_timeline`)
		b.exec(`DELETE FROM payments`)
	}
}

// The table refuses such a payment, whatever wrote it.
func TestTableTakesNoPriceWithoutProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, paymentType := range paymentTypes {
		key, err := idempotency.Require(user, "prepare", newIdempotencyKey())
		require.NoError(t, err)
		_, err = b.store().Open(t.Context(), payment.Payment{
			ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Type(paymentType), ID: uuid.New()}, UserID: user,
			Amount: 1, Currency: "KRW", Provider: payment.NoProvider, Status: payment.Prepared, ExpiresAt: b.clock.Now().Add(holdTime),
		}, key)
		requireCheck(t, err)
	}
	b.prepared()
	_, err := b.pool.Exec(t.Context(), `UPDATE payments SET provider = 'none'`)
	requireCheck(t, err)
}

func requireCheck(t *testing.T, err error) {
	t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "payments_free", refusal.ConstraintName)
}
