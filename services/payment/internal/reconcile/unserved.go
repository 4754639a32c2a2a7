package reconcile

import (
	"context"
	"fmt"
	"time"

	"urr.guru/services/payment/internal/payment"
)

// RunUnserved finds the payments of a day that count as captured here, and whose provider is not
// among those configured: payment.NoProvider, which can charge nothing, or a provider that was
// removed. No account says whether their money was taken. As in Run, earlier differences of such
// providers are compared too, and report receives each finding. It returns a summary for each such
// provider.
func RunUnserved(
	ctx context.Context, payments Payments, differences DifferenceStore, configured []string, day time.Time, report func(Finding) error,
) ([]Summary, error) {
	names, err := payments.Unserved(ctx, configured)
	if err != nil {
		return nil, err
	}
	summaries := make([]Summary, 0, len(names))
	for _, name := range names {
		r := newRun(payments, differences, Source{Name: name}, day, report)
		r.compare = r.compareUnserved
		if err := r.readHere(ctx, payment.LedgerCapture); err != nil {
			return summaries, err
		}
		if err := r.readUnclosed(ctx); err != nil {
			return summaries, err
		}
		sum, err := r.compareSuspects(ctx)
		summaries = append(summaries, sum)
		if err != nil {
			return summaries, err
		}
	}
	return summaries, nil
}

// compareUnserved returns the difference of a captured payment without a configured provider.
func (r *run) compareUnserved(ctx context.Context, order string) ([]Difference, error) {
	here, err := r.here(ctx, order)
	if err != nil || here == nil || here.Payment.Captured == 0 {
		return nil, err
	}
	p := here.Payment
	return []Difference{{
		Kind: CaptureUnserved, Provider: r.source.Name, OrderID: order, PaymentID: p.ID,
		Ours:   fmt.Sprintf("%s, %s", p.Status, captured(p.Captured, p.Currency)),
		Theirs: "not a configured provider",
	}}, nil
}
