package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// TestProofOfWork checks that an event that asks for a proof of work gives no position without one.
// An operator turns it on and off during a sale, and visitors keep their positions.
func TestProofOfWork(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	event, _ := scheduledSale(t, p, 0, 10)
	activate := func(settings map[string]any) (status struct{ ProofOfWork int }) {
		p.Operator().MustCall(t.Context(), http.MethodPost, "/api/v1/admin/vwr/activate/"+event, settings, &status)
		return status
	}
	path := "/vwr-api/vwr/assign/" + event
	position := func(a *harness.Answer) (n int64) {
		t.Helper()
		var got struct{ Position int64 }
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.NoError(t, a.Decode(&got))
		require.Positive(t, got.Position)
		return got.Position
	}
	require.Equal(t, 12, activate(map[string]any{"batch": 1, "intervalSeconds": 3600, "proofOfWork": 12}).ProofOfWork)

	script, visitor := p.Visitor(), p.Visitor()
	requireProofRequired := func(c *harness.Client, caller string) {
		t.Helper()
		a := c.CallWhileOverloaded(t.Context(), http.MethodPost, path, nil)
		require.Equal(t, http.StatusForbidden, a.Status, "%s: %s", caller, a.Body)
		require.Equal(t, platform.ProofRequired, a.Code(), caller)
	}
	requireProofRequired(script, "a script")
	requireProofRequired(script, "a script, again")

	challenge := visitor.MustCall(t.Context(), http.MethodGet, platform.ChallengePath(event), nil, nil)
	proof, err := platform.Prove(t.Context(), challenge.Body)
	require.NoError(t, err)
	requireProofRequired(script.With(platform.ProofHeader, proof), "another visitor's proof")
	proven := visitor.With(platform.ProofHeader, proof)
	first := position(proven.MustCall(t.Context(), http.MethodPost, path, nil, nil))
	require.Equal(t, first, position(proven.MustCall(t.Context(), http.MethodPost, path, nil, nil)), "repeated")
	require.Equal(t, first, position(visitor.MustCall(t.Context(), http.MethodPost, path, nil, nil)), "repeated without the proof")
	requireProofRequired(script, "a script, still")
	other := p.Visitor()
	assigned, err := harness.RepeatWhileOverloaded(t.Context(), t, func() (*harness.Answer, error) { return other.Assign(t.Context(), event) })
	require.NoError(t, err)
	require.Greater(t, position(assigned), first)

	require.Zero(t, activate(map[string]any{"proofOfWork": 0}).ProofOfWork)
	p.Eventually(func(ctx context.Context) error {
		a, err := script.Call(ctx, http.MethodPost, path, nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("refused after the operator has turned it off: %d %s", a.Status, a.Body)
		}
		return err
	})
	require.Equal(t, first, position(visitor.MustCall(t.Context(), http.MethodPost, path, nil, nil)), "the position is kept")
}
