package rpc_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

const (
	// pageTime is the time that buyers have on the page.
	pageTime  = 12 * time.Minute
	publicURL = "https://provider"
)

// withPage is an option of setup: the provider has a page.
func withPage(b *bundle) { b.publicURL = publicURL }

// returnParams returns the parameters with which a buyer comes back, with a payment key.
func (b *bundle) returnParams(p *paymentv1.PrepareResponse, paymentKey string) map[string]string {
	b.t.Helper()
	address, err := url.Parse(b.provider.Session(p.GetOrderId()).ReturnURL)
	require.NoError(b.t, err)
	params := map[string]string{}
	for name, values := range address.Query() {
		params[name] = values[0]
	}
	if paymentKey != "" {
		params["paymentKey"] = paymentKey
	}
	return params
}

func (b *bundle) comeBack(params map[string]string) (*paymentv1.ReturnPaymentResponse, error) {
	return b.client.ReturnPayment(b.t.Context(), &paymentv1.ReturnPaymentRequest{Provider: "sandbox", Params: params})
}

func (b *bundle) cancel(p *paymentv1.PrepareResponse, userID string) (*paymentv1.Payment, error) {
	return b.client.CancelPayment(b.t.Context(), &paymentv1.CancelPaymentRequest{Caller: caller(userID, ""), PaymentId: p.GetPaymentId()})
}

// Prepare returns the page's address after the reference is claimed. The address stays the same.
func TestPrepareOpensThePage(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	require.Equal(t, "OPEN", p.GetStatus())
	require.Contains(t, p.GetPage().GetUrl(), publicURL+"/pay/")
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment)
	require.Equal(t, b.clock.Now().Add(pageTime-30*time.Second), p.GetExpiresAt().AsTime(), "before the claim ends")
	again, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, p.GetPaymentId(), again.GetPaymentId())
	require.Equal(t, p.GetPage().GetUrl(), again.GetPage().GetUrl())
	require.Equal(t, 1, b.tickets.Hold(ref).Opens)
	require.Equal(t, p.GetPage().GetUrl(), b.get(p).GetPage().GetUrl())
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
}

// If a step of Prepare fails, the repeated request continues with that step.
func TestPrepareIsRepeatedUntilThereIsAPage(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	ref, key := b.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	b.tickets.Fail("Begin", errs.ErrUnavailable)
	b.tickets.Fail("BeginAnswer", errs.ErrUnavailable)
	var first string
	for range 2 {
		p, err := b.prepare(ref, key)
		require.NoError(t, err)
		require.Equal(t, "PREPARED", p.GetStatus())
		require.Nil(t, p.GetPage())
		first = p.GetPaymentId()
	}
	p, err := b.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, "OPEN", p.GetStatus())
	require.Equal(t, first, p.GetPaymentId())
	require.Equal(t, 1, b.tickets.Hold(ref).Opens, "the claim of the lost answer")
}

// A claim whose answer was lost is released when the payment ends.
func TestPreparedClaimIsReleased(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	ref := b.tickets.Add(user, amount, holdTime)
	b.tickets.Fail("BeginAnswer", errs.ErrUnavailable)
	p, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment)
	b.sweep(holdTime)
	b.sweep(0)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	require.Empty(t, b.tickets.Hold(ref).Payment)
}

func TestTicketRefusesThePage(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	ref, key := b.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	b.tickets.Fail("Begin", errs.ErrNotPayable)
	_, err := b.prepare(ref, key)
	require.ErrorIs(t, err, errs.ErrNotPayable)
	p, err := b.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, "DECLINED", p.GetStatus())
	require.Nil(t, p.GetPage())
}

// An ended payment has no token any more, neither of its own nor in the page's address. A buyer who comes
// back late is still known by its digest, and sees what became of the payment; a forged token is not.
func TestTokenGoesWithThePayment(t *testing.T) {
	t.Parallel()
	token := func(b *bundle, p *paymentv1.PrepareResponse) (kept, page string) {
		b.t.Helper()
		sql := `SELECT page_token, page_url FROM payments WHERE id = $1`
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, p.GetPaymentId()).Scan(&kept, &page))
		return kept, page
	}
	for want, end := range map[string]func(*bundle, *paymentv1.PrepareResponse, map[string]string){
		"CONFIRMED": func(b *bundle, _ *paymentv1.PrepareResponse, params map[string]string) {
			params["paymentKey"] = "ok-1"
			_, err := b.comeBack(params)
			require.NoError(b.t, err)
			b.sweep(0)
		},
		"DECLINED": func(b *bundle, _ *paymentv1.PrepareResponse, params map[string]string) {
			params["paymentKey"] = "decline-1"
			_, err := b.comeBack(params)
			require.NoError(b.t, err)
			b.sweep(0)
		},
		"EXPIRED": func(b *bundle, p *paymentv1.PrepareResponse, _ map[string]string) {
			_, err := b.cancel(p, user)
			require.NoError(b.t, err)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := setup(t, withPage)
			p, _ := b.prepared()
			params := b.returnParams(p, "")
			// Like the page of Toss, whose address has the token.
			_, err := b.pool.Exec(t.Context(), `UPDATE payments SET page_url = page_url || '#' || page_token WHERE id = $1`, p.GetPaymentId())
			require.NoError(t, err)
			kept, page := token(b, p)
			require.Equal(t, params["token"], kept)
			require.Contains(t, page, kept)

			end(b, p, params)
			require.Equal(t, want, b.get(p).GetStatus())
			gone, page := token(b, p)
			require.Empty(t, gone)
			require.NotEmpty(t, page)
			require.NotContains(t, page, kept)

			delete(params, "paymentKey")
			late, err := b.comeBack(params)
			require.NoError(t, err)
			require.Equal(t, want, late.GetStatus())
			for _, forged := range []string{"", "x"} {
				params["token"] = forged
				_, err = b.comeBack(params)
				require.ErrorIs(t, errs.FromStatus(err), errs.ErrPaymentNotFound)
			}
		})
	}
}

// A buyer who comes back need not be signed in. Only the first key that comes back is charged.
func TestReturnIsCharged(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	forged := b.returnParams(p, "ok-1")
	forged["token"] = "x"
	_, err := b.comeBack(forged)
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
	got, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	require.Equal(t, p.GetPaymentId(), got.GetPaymentId())
	require.Equal(t, ref, got.GetReferenceId())
	require.Equal(t, "PENDING", got.GetStatus())
	require.Equal(t, "PENDING", b.get(p).GetStatus(), "it is about to be charged")
	require.Nil(t, b.get(p).GetPage(), "nobody is to pay on it again")
	_, err = b.comeBack(b.returnParams(p, "ok-2"))
	require.NoError(t, err, "a second tab")
	b.sweep(0)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, "ok-1", b.provider.Order(p.GetOrderId()).PaymentKey)
	_, err = b.comeBack(b.returnParams(p, "ok-3"))
	require.NoError(t, err, "reloaded")
	b.sweep(time.Minute)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// A confirmation may contain a key. A key that came back from the page before it is used instead.
func TestConfirmOfAnOpenPayment(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	_, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	got, err := b.confirm(p, "ok-2", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.Equal(t, "ok-1", b.provider.Order(p.GetOrderId()).PaymentKey)
}

// A charge that was not sent is sent later with the stored key, without another request.
func TestUnsentChargeOfAnOpenPayment(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	b.tickets.Fail("Begin", errs.ErrUnavailable)
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Equal(t, "PENDING", b.get(p).GetStatus())
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM payments WHERE id = $1 AND status = 'OPEN'`, p.GetPaymentId()))
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment, "the claim stays")
	b.becomes(p, "CONFIRMED")
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
}

func TestChangeOfMind(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	_, err := b.cancel(p, "bob")
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
	for range 2 {
		got, err := b.cancel(p, user)
		require.NoError(t, err)
		require.Equal(t, "EXPIRED", got.GetStatus())
	}
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	_, err = b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrHoldExpired)

	paid, _ := b.confirmed()
	_, err = b.cancel(paid, user)
	require.ErrorIs(t, err, errs.ErrAlreadyPaid)
	unknown, _ := b.pending("timeout-1")
	_, err = b.cancel(unknown, user)
	require.ErrorIs(t, err, errs.ErrPaymentInProgress)
}

// If the payer gives up the seats, the open payment ends. A key from its page then comes too late.
func TestGivenUpPlaces(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	id := uuid.MustParse(p.GetPaymentId())
	for range 2 {
		require.NoError(t, b.service.EndGivenUp(t.Context(), "e-1", id))
		require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	}
	got, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	require.Equal(t, "EXPIRED", got.GetStatus())
	b.sweep(time.Minute)
	require.Zero(t, b.provider.Calls(paymenttest.Charges))

	unknown, _ := b.pending("timeout-1")
	require.NoError(t, b.service.EndGivenUp(t.Context(), "e-2", uuid.MustParse(unknown.GetPaymentId())))
	require.Equal(t, "PENDING", b.get(unknown).GetStatus(), "ticket says nothing of a charge that may have been made")
}

// With readOnly, a buyer who is not signed in can poll the payment's state. Nothing changes.
func TestLookingAtAReturn(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	look := &paymentv1.ReturnPaymentRequest{Provider: "sandbox", Params: b.returnParams(p, "ok-1"), Looks: true}
	got, err := b.client.ReturnPayment(t.Context(), look)
	require.NoError(t, err)
	require.Equal(t, "OPEN", got.GetStatus())
	require.Equal(t, "OPEN", b.get(p).GetStatus(), "the key is not stored")
	look.Params["token"] = "x"
	_, err = b.client.ReturnPayment(t.Context(), look)
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
}

// A buyer who paid on the page and never came back gets the ticket, without any webhook.
func TestOpenPaymentIsPolled(t *testing.T) {
	t.Parallel()
	for _, paidAfter := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 11 * time.Minute} {
		d := newAuthorizer()
		b := setup(t, withAuthorizer(d))
		p, _ := b.prepared()
		for at := time.Duration(0); at < pageTime && b.get(p).GetStatus() == "OPEN"; at += 10 * time.Second {
			if at >= paidAfter {
				d.authorize(p.GetOrderId())
			}
			b.sweep(10 * time.Second)
		}
		require.Equal(t, "CONFIRMED", b.get(p).GetStatus(), paidAfter)
		require.LessOrEqual(t, b.provider.Calls(paymenttest.Lookups), 6)
	}
}

// After a webhook the provider is asked at once. The webhook itself is no outcome.
func TestHintOfAnOpenPayment(t *testing.T) {
	t.Parallel()
	d := newAuthorizer()
	b := setup(t, withAuthorizer(d))
	p, _ := b.prepared()
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, "OPEN", b.get(p).GetStatus())
	d.authorize(p.GetOrderId())
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(5 * time.Second)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
}

// Until the ticket service has applied the payment's event, its claim is prolonged.
func TestClaimsAreLengthened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.pending("late-1")
	for range 10 {
		b.clock.Advance(30 * time.Second)
		b.service.ExtendDue(t.Context())
		require.False(t, b.clock.Now().After(b.tickets.Hold(ref).ExpiresAt))
	}
	b.provider.Settle(p.GetOrderId(), "CAPTURED")
	b.becomes(p, "CONFIRMED")
	claimed := func() (due bool) {
		b.clock.Advance(time.Minute)
		b.service.ExtendDue(t.Context())
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT extend_at IS NOT NULL FROM payments WHERE id = $1`, p.GetPaymentId()).Scan(&due))
		return due
	}
	require.True(t, claimed(), "ticket has not applied the event")
	b.tickets.Settle(ref)
	require.False(t, claimed())
}

// While payment events are applied late, no page is opened, and a charge after a page waits.
func TestPagesWaitForSettlement(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	b.tickets.SetOldestUnapplied(3 * time.Minute)
	b.service.MeasureGate(t.Context())
	_, err := b.prepare(b.tickets.Add(user, amount, holdTime), newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrSettlementDelayed)
	_, err = b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	b.sweep(0)
	require.Equal(t, "PENDING", b.get(p).GetStatus())
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM payments WHERE id = $1 AND status = 'OPEN'`, p.GetPaymentId()))
	b.tickets.SetOldestUnapplied(0)
	b.service.MeasureGate(t.Context())
	b.becomes(p, "CONFIRMED")
}

func TestProviderOfAPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.tickets.Add(user, amount, holdTime)
	in := &paymentv1.PrepareRequest{Caller: caller(user, newIdempotencyKey()), PaymentType: "reservation", ReferenceId: ref, Provider: "bank"}
	_, err := b.client.Prepare(t.Context(), in)
	require.ErrorIs(t, err, errs.ErrProviderUnknown)
	_, err = b.client.ReturnPayment(t.Context(), &paymentv1.ReturnPaymentRequest{Provider: "bank"})
	require.ErrorIs(t, err, errs.ErrProviderUnknown)
	list, err := b.client.ListProviders(t.Context(), &paymentv1.ListProvidersRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"sandbox"}, list.GetProviders())

	p, _ := b.prepared()
	b.exec(`UPDATE payments SET provider = 'bank' WHERE id = $1`, p.GetPaymentId())
	_, err = b.client.Confirm(t.Context(), &paymentv1.ConfirmRequest{
		Caller: caller(user, newIdempotencyKey()), OrderId: p.GetOrderId(), PaymentKey: "ok-1", Amount: proto.Int64(amount),
	})
	require.ErrorIs(t, err, errs.ErrProviderUnavailable, "it is never sent to another provider")
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
}
