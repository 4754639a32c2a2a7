package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// Each injected fault changes only its own figure of the verdict.
func TestDamagesOfRefunds(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	for damage, want := range map[string]string{
		"": " unbalanced=0 presale_in=unknown opened_after_refund=0", breakUnbalanced: " unbalanced=1 presale_in=unknown opened_after_refund=0",
		breakOpened: " unbalanced=0 presale_in=unknown opened_after_refund=1",
	} {
		t.Run(damage, func(t *testing.T) {
			s.fill(t, partlyRefundedLedger())
			judge := &SaleInStores{Stores: s, EventID: "part"}
			if damage != "" {
				require.NoError(t, judge.InjectFault(t.Context(), damage))
			}
			var v saleFindings
			require.NoError(t, judge.judgeFaults(t.Context(), &v))
			v.addObserved(SaleRun{Tally: &crowd.Tally{}})
			require.Contains(t, v.Line(), want)
			require.Equal(t, damage == "", v.OK(), "%v", v.Findings)
		})
	}
}
