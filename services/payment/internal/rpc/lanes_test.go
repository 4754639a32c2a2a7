package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// While the provider does not answer lookups, payments still expire, references are released and
// refunds are made.
func TestSilentProviderDelaysOnlyItsLane(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paid, _ := b.confirmed()
	b.tickets.Fail("Abort", errs.ErrUnavailable)
	refused, ref := b.prepared()
	_, err := b.confirm(refused, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	b.pending("lost-1")
	b.provider.Block(paymenttest.Lookups)
	b.clock.Advance(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	swept := make(chan error, 1)
	go func() { swept <- b.service.Sweep(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-swept)
	})
	testkit.Until(t, func() bool { return b.provider.Calls(paymenttest.Lookups) > 0 }, "the provider is asked")

	late, _ := b.prepared()
	b.reject(paid, "e1")
	b.clock.Advance(holdTime)
	testkit.Until(t, func() bool { return b.get(late).GetStatus() == "EXPIRED" }, "a payment expires")
	testkit.Until(t, func() bool { return b.get(paid).GetStatus() == "REFUNDED" }, "a refund is made")
	testkit.Until(t, func() bool { return b.tickets.Hold(ref).Aborts == 1 }, "a reference is released")
}
