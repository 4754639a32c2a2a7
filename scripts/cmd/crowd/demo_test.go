package main

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

func number(n int) *int { return &n }

func TestVerdictLine(t *testing.T) {
	t.Parallel()
	whole := Verdict{Visitors: 3000, Seats: 600, Sold: 600, OverThreshold: number(0), OutOfOrder: number(0)}
	require.Equal(t, "demo ok: visitors=3000 seats=600 sold=600 oversold=0 paid_without_ticket=0 over_threshold=0 out_of_order=0 forged_in=0", whole.Line())

	seen := whole
	seen.OverThreshold, seen.OutOfOrder = nil, nil
	require.Equal(t, "demo ok: visitors=3000 seats=600 sold=600 oversold=0 paid_without_ticket=0 over_threshold=unknown out_of_order=unknown forged_in=0", seen.Line())

	for name, breakIt := range map[string]func(*Verdict){
		"unsold":              func(v *Verdict) { v.Sold = 599 },
		"oversold":            func(v *Verdict) { v.Oversold = 1 },
		"paid_without_ticket": func(v *Verdict) { v.PaidWithoutTicket = 1 },
		"over_threshold":      func(v *Verdict) { v.OverThreshold = number(1) },
		"out_of_order":        func(v *Verdict) { v.OutOfOrder = number(1) },
		"forged_in":           func(v *Verdict) { v.ForgedIn = 1 },
		"other":               func(v *Verdict) { v.Other = 1 },
	} {
		v := whole
		breakIt(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo FAILED: ", name)
	}
	whole.Other = 2
	require.Contains(t, whole.Line(), " other=2")
}

func TestStoresMustBeConfiguredTogether(t *testing.T) {
	t.Parallel()
	remote := Config{
		Visitors: 1, Seats: 1, URL: "https://tickets.test", TicketDatabase: "t", PaymentDatabase: "p", StatsDatabase: "s",
		RedisAddrs: []string{"r"}, KafkaBrokers: []string{"k"}, SandboxURL: "u",
	}
	require.NoError(t, remote.Validate())
	require.False(t, remote.withoutStores())

	some := remote
	some.KafkaBrokers = nil
	require.ErrorContains(t, some.Validate(), "KAFKA_BROKERS: missing beside TICKET_DATABASE_URL")
	local := remote
	local.URL = ""
	require.ErrorContains(t, local.Validate(), "they go with URL")

	none := Config{Visitors: 1, Seats: 1, URL: "https://tickets.test"}
	require.NoError(t, none.Validate())
	require.True(t, none.withoutStores())
	none.Break = breakOversold
	require.ErrorContains(t, none.Validate(), "BREAK")
	own := Config{Visitors: 1, Seats: 1}
	require.NoError(t, own.Validate())
	require.False(t, own.withoutStores())
}

func TestEventIDsOfDemosAreUnique(t *testing.T) {
	t.Parallel()
	one, other := Config{Seed: 1}, Config{Seed: 2}
	require.NotEqual(t, one.sale().EventID, other.sale().EventID)
	require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, one.sale().EventID)
}

// TestReportIsSelfContained: the report works without a network and sends no requests.
func TestReportIsSelfContained(t *testing.T) {
	t.Parallel()
	rec := crowd.NewRecorder()
	for i := range 20 {
		rec.Add(crowd.StepReserve, time.Duration(i)*time.Millisecond, "")
	}
	d := &saleDemo{cfg: &Config{}, recorder: rec}
	content, err := d.page(Report{
		Verdict: Verdict{Visitors: 2, Seats: 1}, EventID: "e", Series: []audit.Sample{{Seconds: 0}, {Seconds: 1, Arrived: 2, Active: 1, Sold: 1}},
		Result: demo.Result{
			Findings: []string{"<script>alert(1)</script>"}, Steps: rec.Summaries(), Outcomes: map[string]int{"ticket": 1},
		},
	})
	require.NoError(t, err)
	page, err := content.HTML()
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`<svg`).FindAll(page, -1), 5)
	require.NotContains(t, string(page), "<script")
	text := regexp.MustCompile(`xmlns(:\w+)?="[^"]*"`).ReplaceAllString(string(page), "")
	require.NotRegexp(t, `(?i)https?://|//[a-z]|\bsrc=|\bhref=|@import|url\(`, text)
}
