package plan_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/plan"
	"urr.guru/pkg/spread"
	"urr.guru/pkg/waits"
)

var update = flag.Bool("update", false, "write the golden file") //nolint:gochecknoglobals // a flag

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.034: "0.03", 9.996: "10.0", 27.26: "27.3", 99.96: "100", 4439.1: "4,439", 1_234_567: "1,234,567", 1_000_023: "1,000,023"} {
		require.Equal(t, want, plan.Number(v))
	}
}

// 100,000 visitors in tier 1 poll at the intervals that pkg/waits advises.
func TestPollRate(t *testing.T) {
	t.Parallel()
	rate := plan.PollRate(100_000, plan.Tier1Polls)
	require.Equal(t, "500/2 + 1,500/5 + … + 20,000/40 = 5,517", rate.Text())
	require.InDelta(t, 5517, rate.PerSecond, 1)
	require.Equal(t, plan.Rate{PerSecond: 390, Sum: "500/2 + 700/5"}, plan.PollRate(1200, plan.Tier1Polls))
	from := 0.0
	for _, it := range plan.Tier1Polls {
		advised := func(ahead int64) float64 {
			return float64(waits.NextPoll(ahead, waits.EstimatedWait(ahead, plan.Admitted, 0), 0.5))
		}
		require.InDelta(t, it.Seconds, advised(int64(from)+1), 0)
		if from = it.Ahead; from > 0 {
			require.GreaterOrEqual(t, advised(int64(from)), it.Seconds)
		}
	}
}

// Visitors in a lobby poll as pkg/waits advises, until shortly before its end.
func TestLobbyPolls(t *testing.T) {
	t.Parallel()
	start := time.Date(2042, 3, 7, 11, 0, 0, 0, time.UTC)
	for within, want := range map[int64]string{10: "60,000/30 = 2,000", 60: "60,000/120 = 500"} {
		sale := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 60_000, WithinSeconds: within}}
		require.Equal(t, want, sale.Extras()[0].Text())
		opening := spread.Instant{Start: start, Over: spread.Over(sale.Visitors, sale.PerSecond())}
		_, poll := waits.LobbyPoll(opening, opening.TurnOf("entry", time.Time{}), start.Add(-time.Hour), 0.5)
		require.InDelta(t, sale.Extras()[0].PerSecond, float64(sale.Visitors)/float64(poll), 0)
	}
}

// The plan says with what settings a room spreads the crowd: as it would come, but within ten
// minutes.
func TestSettingsOfTheRoom(t *testing.T) {
	t.Parallel()
	for within, want := range map[int64]string{60: `"expected": 1000000 and "askRate": 16667,`, 3600: `"expected": 1000000 and "askRate": 1667,`} {
		sale := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1_000_000, WithinSeconds: within}}
		require.Contains(t, strings.Join(sale.Conditions(), "\n"), want)
	}
}

// Of a crowd that is processed as it comes, the passes of ingest find nothing waiting. Of a larger
// one they read every marker and a part of the requests, up to the most that may wait.
func TestReadsOfWhatWaits(t *testing.T) {
	t.Parallel()
	reads := func(visitors int64) float64 {
		o := plan.Opening{Kind: plan.Promotion, Expected: plan.Expected{Visitors: visitors, WithinSeconds: 10}}
		return o.Loads()[0].Reads - o.PerSecond() - 2*min(o.PerSecond(), plan.SettledPerSecond)
	}
	require.InDelta(t, 0, reads(9000), 1e-6)
	require.InDelta(t, 40_000*(1.0/20+1.0/plan.SweepTurns)/plan.SweepSeconds, reads(50_000), 1e-6)
	require.InDelta(t, reads(110_000), reads(1_000_000), 1e-6)
}

// The gateway's cost of a position is that of a poll until it was measured.
func TestMeasuredCostOfAPosition(t *testing.T) {
	t.Parallel()
	f := measured()
	sale := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 60_000, WithinSeconds: 60}}
	assumed, _ := f.Need("gateway", sale)
	for i := range f.Rows {
		if f.Rows[i].Name == "limits" {
			f.Rows[i].Parts["gateway"] = 60
		}
	}
	cores, missing := f.Need("gateway", sale)
	require.Empty(t, missing)
	require.InDelta(t, assumed+1000*(60-50)/1e6/plan.Busy, cores, 1e-9)
}

// measured returns figures with all rows except assign_cpu and promotion_sold_out.
func measured() plan.Figures {
	return plan.Figures{Processors: 2, Rows: []plan.Row{
		{Name: "event", Parts: map[string]float64{"gateway": 40, "ticket": 0.4}},
		{Name: "queue_status_256", Parts: map[string]float64{"gateway": 50, "queue": 10, "redis": 4}},
		{Name: "assign", Parts: map[string]float64{"vwr": 200}},
		{Name: "limits", Parts: map[string]float64{"redis_µs_per_allowed": 6}},
		{Name: "serving", Parts: map[string]float64{"gateway": 30}},
		{Name: "availability_50k", Parts: map[string]float64{"gateway": 45, "ticket": 1.5}},
		{Name: "seat_hold", Value: 160},
		{Name: "confirm", Value: 3600},
		{Name: "reward_claim", Value: 90},
		{Name: "redis_mb_per_million_waiting", Value: 326},
		{Name: "stats_consume", Value: 12},
	}}
}

func TestPlanOfAMillion(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	require.NoError(t, plan.Write(&got, measured(), plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}))
	const golden = "testdata/million.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "go test ./plan -update")
}

// Twice the visitors, or half the time, double the arrivals. A faster row needs fewer cores.
func TestPlansAreLinear(t *testing.T) {
	t.Parallel()
	f := measured()
	for _, kind := range []plan.Kind{plan.Sale, plan.Promotion, plan.Campaign} {
		once := plan.Opening{Kind: kind, Expected: plan.Expected{Visitors: 30_000, WithinSeconds: 60}}
		twice, faster := once, once
		twice.Visitors *= 2
		faster.WithinSeconds /= 2
		for i, r := range once.Requests() {
			switch r.Name {
			case "hold seats", "pay": // limited by the rate of admissions
				require.InDelta(t, r.PerSecond, twice.Requests()[i].PerSecond, 0)
			case "poll tier 1", "poll tier 2": // visitors further back poll less often
				require.Greater(t, twice.Requests()[i].PerSecond, r.PerSecond)
			default: // settling has a limit that this crowd does not reach
				require.InDelta(t, 2*r.PerSecond, twice.Requests()[i].PerSecond, 1e-9, r.Name)
			}
		}
		for i, l := range once.Loads() {
			require.InDelta(t, 2*l.Writes, twice.Loads()[i].Writes, 1e-9, l.Index)
			require.InDelta(t, 2*l.Writes, faster.Loads()[i].Writes, 1e-9, l.Index)
			require.Equal(t, once.Loads()[0].Table, l.Table, "all of one table")
		}
	}
	sale := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 60_000, WithinSeconds: 60}}
	cores, missing := f.Need("vwr", sale)
	require.Empty(t, missing)
	require.InDelta(t, 1000*200/1e6/plan.Busy, cores, 1e-9)
	f.Rows = append(f.Rows, plan.Row{Name: "assign_cpu", Parts: map[string]float64{"vwr": 60}})
	cores, _ = f.Need("vwr", sale)
	require.InDelta(t, 1000*60/1e6/plan.Busy, cores, 1e-9, "what vwr itself needs is the better row")
	require.ElementsMatch(t, []string{"gateway", "vwr", "queue", "ticket"}, keys(f.ServiceCores(sale)))
	_, missing = f.Need("ingest", plan.Opening{Kind: plan.Promotion, Expected: sale.Expected})
	require.Equal(t, []string{"`promotion_sold_out`"}, missing)
}

func keys(m map[string]float64) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestExpected(t *testing.T) {
	t.Parallel()
	require.Empty(t, plan.Expected{}.Check())
	require.Empty(t, plan.Expected{Visitors: 1, WithinSeconds: 86_400}.Check())
	for e, paths := range map[plan.Expected][]string{
		{Visitors: 1}:                               {"expected.withinSeconds"},
		{WithinSeconds: 1}:                          {"expected.visitors"},
		{Visitors: -1, WithinSeconds: 86_401}:       {"expected.visitors", "expected.withinSeconds"},
		{Visitors: 100_000_001, WithinSeconds: 100}: {"expected.visitors"},
	} {
		var got []string
		for _, f := range e.Check() {
			got = append(got, f.Path)
		}
		require.Equal(t, paths, got)
	}
	for e, shards := range map[plan.Expected]int64{
		{}: 0, {Visitors: 1, WithinSeconds: 1}: 1, {Visitors: 250, WithinSeconds: 1}: 1, {Visitors: 251, WithinSeconds: 1}: 2,
		{Visitors: 1_000_000, WithinSeconds: 60}: 67, {Visitors: 1_000_000, WithinSeconds: 1}: 128,
	} {
		require.Equal(t, shards, e.Shards())
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, plan.Command([]string{"--visitors", "100000", "--within", "60"}, &out))
	for _, part := range []string{"100,000 visitors within 60 s", "SALE", "PROMOTION", "CAMPAIGN", "gateway", "DynamoDB vwr-positions"} {
		require.Contains(t, out.String(), part)
	}
	for args, problem := range map[string]string{
		"":                                   "--visitors and --within are required",
		"--visitors 5":                       "--visitors and --within: withinSeconds must be from 1 to 86400, with visitors",
		"--visitors many --within 60":        `invalid value "many" for flag -visitors`,
		"--visitors 1 --within 60 soon":      `unknown argument "soon"`,
		"--visitors 100000001 --within 60":   "visitors must be from 1 to 100000000",
		"--visitors 1 --within 60 --cores 3": "flag provided but not defined: -cores",
	} {
		err := plan.Command(strings.Fields(args), &out)
		require.ErrorContains(t, err, problem)
		require.ErrorContains(t, err, "usage: plan --visitors N --within SECONDS")
	}
	f, err := plan.Kept()
	require.NoError(t, err)
	require.NotEmpty(t, f.ServiceCores(plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1000, WithinSeconds: 1}}))
}
