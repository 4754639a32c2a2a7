package rpc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	tossfake "urr.guru/services/payment/fakes/toss"
)

// The buyer recognises the payment by what ticket calls it when it is prepared. It stays as it is, since
// Stripe refuses other parameters under the key of a page.
func TestDescription(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	ref := s.tickets.Add(user, amount, holdTime)
	for _, c := range []struct{ from, want string }{
		{"콘서트:\n A-1-1,\tA-1-2 ", "콘서트: A-1-1, A-1-2"},
		{strings.Repeat("가", 101), strings.Repeat("가", 99) + "…"},
		{"", "Order "},
	} {
		s.tickets.Describe(c.from, "")
		ref := s.tickets.Add(user, amount, holdTime)
		p, err := s.prepare(ref, newIdempotencyKey())
		require.NoError(t, err)
		if c.from == "" {
			c.want += p.GetOrderId()
		}
		require.Equal(t, c.want, s.stripe.Order(p.GetOrderId()).Name)
		require.Equal(t, c.want, s.stripe.Order(p.GetOrderId()).Description)
		require.Empty(t, s.stripe.Order(p.GetOrderId()).Suffix)
	}

	s.tickets.Describe("Concert", "AUTUMN")
	s.stripe.Calls.Inject(fake.CreateSession, fakes.Lost)
	p, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Nil(t, p.GetPage())
	s.tickets.Describe("Concert (new date)", "AUTUMN 2")
	again, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, p.GetPaymentId(), again.GetPaymentId())
	require.NotNil(t, again.GetPage(), "the same parameters")
	require.Equal(t, "Concert", s.stripe.Order(p.GetOrderId()).Name)
	require.Equal(t, "AUTUMN", s.stripe.Order(p.GetOrderId()).Suffix)
}

// The provider's receipt is the buyer's to read from the capture on, also if the sweeper has settled it.
func TestReceipt(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.returned()
	require.Nil(t, s.get(p).ReceiptUrl) //nolint:protogetter // absent
	require.Regexp(t, `^https://dashboard\.tosspayments\.com/receipt/`, s.becomes(p, "CONFIRMED").GetReceiptUrl())

	lost, _ := s.returned()
	s.toss.Inject(tossfake.Confirms, fakes.Lost)
	require.Regexp(t, `^https://dashboard\.tosspayments\.com/receipt/`, s.becomes(lost, "CONFIRMED").GetReceiptUrl())

	b := setupStripe(t)
	p, _ = b.prepared()
	b.comeBack(b.choose(p, fake.Pay))
	require.Regexp(t, `^https://pay\.stripe\.com/receipts/`, b.becomes(p, "CONFIRMED").GetReceiptUrl())
}

// The provider sends its receipt to the payer's verified address, if there is one that it accepts. The
// address is forgotten once the page is open.
func TestReceiptIsSent(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	for address, want := range map[string]string{"ann@shop.test": "ann@shop.test", "": "", "not an address": ""} {
		in := &paymentv1.PrepareRequest{Caller: caller(user, newIdempotencyKey()), PaymentType: "reservation", ReferenceId: s.tickets.Add(user, amount, holdTime)}
		in.Caller.Email = address
		s.stripe.Calls.Inject(fake.CreateSession, fakes.Lost)
		p, err := s.client.Prepare(t.Context(), in)
		require.NoError(t, err)
		again, err := s.client.Prepare(t.Context(), in)
		require.NoError(t, err)
		require.NotNil(t, again.GetPage(), "%q: the same parameters", address)
		require.Equal(t, want, s.stripe.Order(p.GetOrderId()).Email)
		require.Zero(t, s.count(`SELECT count(*) FROM payments WHERE email <> ''`))
	}
}
