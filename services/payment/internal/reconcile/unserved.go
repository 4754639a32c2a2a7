package reconcile

import (
	"context"
	"time"

	"urr.guru/services/payment/internal/payment"
)

// RunUnserved is Run for a provider that is not configured: payment.NoProvider, which can charge
// nothing, or one that was removed. Each payment of the day that counts as captured here is a
// difference, since no account says whether its money was taken.
func RunUnserved(
	ctx context.Context, payments Payments, differences DifferenceStore, provider string, day time.Time, report func(Finding) error,
) (Summary, error) {
	r := newRun(payments, differences, Source{Name: provider}, day, report)
	r.compare = r.compareUnserved
	err := r.readHere(ctx, payment.LedgerCapture)
	if err == nil {
		err = r.readUnclosed(ctx)
	}
	if err != nil {
		return r.summary, err
	}
	return r.compareSuspects(ctx)
}

// compareUnserved returns the difference of a captured payment without a configured provider.
func (r *run) compareUnserved(ctx context.Context, order string) ([]Difference, error) {
	here, err := r.here(ctx, order)
	if err != nil || here == nil || here.Payment.Captured == 0 {
		return nil, err
	}
	return []Difference{{
		Kind: CaptureUnserved, Provider: r.source.Name, OrderID: order, PaymentID: here.Payment.ID,
		Ours: ourCapture(here.Payment), Theirs: "not a configured provider",
	}}, nil
}
