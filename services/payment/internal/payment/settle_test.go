package payment

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// voider is a provider with a fixed answer to Cancel.
type voider struct {
	Provider

	outcome Outcome
	err     error
}

func (v voider) Cancel(context.Context, Payment) (Outcome, error) { return v.outcome, v.err }

func (voider) Capabilities() Capabilities {
	return Capabilities{Void: true, Finality: time.Second, CallTime: time.Second}
}

// recorder is a store that records the decisions.
type recorder struct {
	Stores

	statuses []Status
}

func (r *recorder) Apply(_ context.Context, _ uuid.UUID, decide Decide) (Payment, error) {
	p := paymentIn(Confirming)
	c, err := decide(p, now)
	if err == nil {
		p.Status = c.Status
		r.statuses = append(r.statuses, c.Status)
	}
	return p, err
}

// A payment is not declined if Cancel finds that the charge was captured after the look-up, even
// when the provider did not know the charge for 15 minutes.
func TestLateVoidDoesNotDecline(t *testing.T) {
	t.Parallel()
	old := paymentIn(Confirming)
	old.ConfirmingAt, old.ChargedAt = now.Add(-abandonAfter), now.Add(-abandonAfter)
	again := old
	again.ChargedAt = now.Add(-time.Second)
	for name, c := range map[string]struct {
		payment Payment
		voided  Outcome
		err     error
		after   []Status
	}{
		"captured meanwhile":       {old, Outcome{State: Captured}, nil, nil},
		"voided":                   {old, Outcome{State: Void}, nil, []Status{Declined}},
		"no answer":                {old, Outcome{}, context.DeadlineExceeded, []Status{Declined}},
		"charged again, voided":    {again, Outcome{State: Void}, nil, []Status{Declined}},
		"charged again, no answer": {again, Outcome{}, context.DeadlineExceeded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &recorder{}
			s := New(v, nil, onlyProvider(voider{outcome: c.voided, err: c.err}), nil, Options{})
			known, err := s.voidOverdue(t.Context(), c.payment, Outcome{State: Absent}, now)
			if c.after != nil {
				require.NoError(t, err)
			}
			require.Equal(t, c.after != nil, known)
			require.Equal(t, c.after, v.statuses)
		})
	}
}
