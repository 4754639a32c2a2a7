package payment

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// voider is a provider with a fixed answer to Void, and a store that records the decisions.
type voider struct {
	Provider
	Stores

	outcome Outcome
	err     error
	after   []Status
}

func (v *voider) Void(context.Context, string) (Outcome, error) { return v.outcome, v.err }

func (v *voider) Apply(_ context.Context, _ uuid.UUID, decide Decide) (Payment, error) {
	p := in(Confirming)
	c, err := decide(p, now)
	if err == nil {
		p.Status = c.Status
		v.after = append(v.after, c.Status)
	}
	return p, err
}

// A charge may arrive between lookup and void, however late: then the money was taken, and 15
// minutes of absence prove nothing.
func TestLateVoidDoesNotDecline(t *testing.T) {
	t.Parallel()
	old := in(Confirming)
	old.ConfirmingAt = now.Add(-abandonAfter)
	for name, c := range map[string]struct {
		voided Outcome
		err    error
		after  []Status
	}{
		"captured meanwhile": {Outcome{State: Captured}, nil, nil},
		"voided":             {Outcome{State: Void}, nil, []Status{Declined}},
		"no answer":          {Outcome{}, context.DeadlineExceeded, []Status{Declined}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &voider{outcome: c.voided, err: c.err}
			s := New(v, nil, v, nil, nil, Options{ProviderTimeout: time.Second, VoidAfter: time.Second})
			known, err := s.voidOverdue(t.Context(), old, Outcome{State: Absent}, now)
			require.NoError(t, err)
			require.Equal(t, c.after != nil, known)
			require.Equal(t, c.after, v.after)
		})
	}
}
