package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func number(n int) *int { return &n }

func TestSaleVerdict(t *testing.T) {
	t.Parallel()
	perfect := SaleVerdict{Visitors: 3000, Seats: 600, Sold: 600, OverThreshold: number(0), OutOfOrder: number(0), ExtraTurns: number(0)}
	perfect.Unbalanced, perfect.PresaleIn, perfect.Withheld, perfect.Cheats = number(0), number(0), number(0), 20
	require.Equal(t, "demo ok: visitors=3000 seats=600 sold=600 oversold=0 paid_without_ticket=0 over_threshold=0 out_of_order=0 extra_turns=0 "+
		"forged_in=0 unbalanced=0 presale_in=0 opened_after_refund=0 withheld=0 cheats=20", perfect.Line())

	public := perfect
	public.OverThreshold, public.OutOfOrder, public.ExtraTurns, public.Unbalanced, public.PresaleIn = nil, nil, nil, nil, nil
	public.Withheld = nil
	require.Equal(t, "demo ok: visitors=3000 seats=600 sold=600 oversold=0 paid_without_ticket=0 over_threshold=unknown out_of_order=unknown "+
		"extra_turns=unknown forged_in=0 unbalanced=unknown presale_in=unknown opened_after_refund=0 withheld=unknown cheats=20", public.Line())

	for name, breakIt := range map[string]func(*SaleVerdict){
		"unsold":              func(v *SaleVerdict) { v.Sold = 599 },
		"oversold":            func(v *SaleVerdict) { v.Oversold = 1 },
		"paid_without_ticket": func(v *SaleVerdict) { v.PaidWithoutTicket = 1 },
		"over_threshold":      func(v *SaleVerdict) { v.OverThreshold = number(1) },
		"out_of_order":        func(v *SaleVerdict) { v.OutOfOrder = number(1) },
		"extra_turns":         func(v *SaleVerdict) { v.ExtraTurns = number(1) },
		"forged_in":           func(v *SaleVerdict) { v.ForgedIn = 1 },
		"unbalanced":          func(v *SaleVerdict) { v.Unbalanced = number(1) },
		"presale_in":          func(v *SaleVerdict) { v.PresaleIn = number(1) },
		"opened_after_refund": func(v *SaleVerdict) { v.AdmittedAfterRefund = 1 },
		"withheld":            func(v *SaleVerdict) { v.Withheld = number(1) },
		"other":               func(v *SaleVerdict) { v.Other = 1 },
	} {
		v := perfect
		breakIt(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo FAILED: ", name)
	}
	perfect.Other = 2
	require.Contains(t, perfect.Line(), " other=2")
}

func TestSamplesOverTheThreshold(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2, SaleRun{Threshold: 5, Samples: []SaleNumbers{{Active: 5}, {Active: 6}, {}, {Active: 60}}}.samplesOverThreshold())
}

func TestPromotionVerdict(t *testing.T) {
	t.Parallel()
	perfect := PromotionVerdict{Expected: 10_000, Applicants: 10_000, FirstCome: 500, Places: 500, Lottery: 100, Winners: 100}
	require.True(t, perfect.OK())
	require.Equal(t, "demo-promo ok: applicants=10000 first_come=500 lottery=100 late=0 duplicates_in=0 out_of_order=0 unsettled=0 unverified=0", perfect.Line())
	for name, spoil := range map[string]func(*PromotionVerdict){
		"an application is missing": func(v *PromotionVerdict) { v.Applicants-- },
		"a place was not given":     func(v *PromotionVerdict) { v.FirstCome-- },
		"a place too many":          func(v *PromotionVerdict) { v.FirstCome++ },
		"a winner too many":         func(v *PromotionVerdict) { v.Lottery++ },
		"duplicates":                func(v *PromotionVerdict) { v.DuplicatesIn++ },
		"order":                     func(v *PromotionVerdict) { v.OutOfOrder++ },
		"unsettled":                 func(v *PromotionVerdict) { v.Unsettled++ },
		"unverified":                func(v *PromotionVerdict) { v.Unverified++ },
	} {
		v := perfect
		spoil(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo-promo FAILED: ", name)
	}
	perfect.Other = 2
	require.Contains(t, perfect.Line(), " unverified=0 other=2")
	require.False(t, perfect.OK())
}

func TestRewardsVerdict(t *testing.T) {
	t.Parallel()
	perfect := RewardsVerdict{Expected: 2000, Participants: 2000}
	require.Equal(t, "demo-rewards ok: members=2000 paid_twice=0 unpaid=0 overdrawn=0 differences=0", perfect.Line())
	for name, breakIt := range map[string]func(*RewardsVerdict){
		"members=1999":  func(v *RewardsVerdict) { v.Participants = 1999 },
		"paid_twice=1":  func(v *RewardsVerdict) { v.PaidTwice = 1 },
		"unpaid=1":      func(v *RewardsVerdict) { v.Unpaid = 1 },
		"overdrawn=1":   func(v *RewardsVerdict) { v.Overdrawn = 1 },
		"differences=1": func(v *RewardsVerdict) { v.Differences = 1 },
		"other=1":       func(v *RewardsVerdict) { v.Other = 1 },
	} {
		v := perfect
		breakIt(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo-rewards FAILED: ")
		require.Contains(t, v.Line(), " "+name)
	}
}

func TestDaysInKorea(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 3, 7, 15, 0, 0, 0, time.UTC)
	require.Equal(t, 1, daysInKorea(midnight.Add(-time.Minute), midnight.Add(-time.Millisecond)))
	require.Equal(t, 2, daysInKorea(midnight.Add(-time.Minute), midnight))
	require.Equal(t, 1, daysInKorea(midnight, midnight.Add(24*time.Hour-time.Second)))
}

func TestOutputOfReconcile(t *testing.T) {
	t.Parallel()
	const counts = "reconcile: entries=1 allocations=1 differences=1\n"
	found, err := parseReconcile(`unknown_entry: key "by \"hand\"": the ledger has …`+"\n"+
		`paid_twice: allocation 7, key "att-a%2D1-m-2026-03-07-DAILY": …`+"\n"+counts, 1)
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = parseReconcile(counts, 0)
	require.NoError(t, err)
	require.Empty(t, found)
	for output, code := range map[string]int{counts: 2, "": 0, "something: else\n" + counts: 1, "paid_twice: allocation 7, key \"k\": …\n": 1} {
		_, err := parseReconcile(output, code)
		require.Error(t, err, output)
	}
}

func TestKeysOfACampaign(t *testing.T) {
	t.Parallel()
	r := &RewardsRun{Attendance: "a-1", Random: "r-1"}
	require.True(t, r.owns("att-a%2D1-m-2026-03-07-DAILY"))
	require.True(t, r.owns("rand-r%2D1-m-log-7-R1"))
	require.False(t, r.owns("att-a%2D10-m-2026-03-07-DAILY"))
	require.False(t, r.owns("rand-a%2D1-m-log-7"))
}
