package demo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

type verdict struct{ Visitors int }

func (verdict) OK() bool     { return true }
func (verdict) Line() string { return "demo ok: visitors=2" }

// The report can be read without a network, and sends no requests.
func TestReportIsSelfContained(t *testing.T) {
	t.Parallel()
	s := NewStage("http://localhost")
	for i := range 20 {
		s.Recorder.Add(crowd.StepReserve, time.Duration(i)*time.Millisecond, "")
	}
	end := s.Begin(ProgressBar{Name: "arrived", Total: 2})
	s.AddSample(NamedNumber{"arrived", 0})
	s.AddSample(NamedNumber{"arrived", 2}, NamedNumber{"sold", 1})
	end()
	s.Tally.End("ticket")
	r := &Report{Title: "run", Plots: []Plot{
		{Title: "Arrivals", Lines: []PlotLine{{Name: "arrived", Color: Blue}}},
		{Title: "Sold", Lines: []PlotLine{{Name: "sold", Color: Green}, {Name: "seats", Color: Red, Level: 2}}},
	}, Counts: NumberTable{Rows: []NamedNumber{{"proofs", 7}}}}
	dir := t.TempDir()
	require.NoError(t, s.WriteReport(r, verdict{2}, []string{"<script>alert(1)</script>"}, dir))

	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`<svg`).FindAll(page, -1), 3)
	require.Contains(t, string(page), "<tr><td>ticket<td>1</tr>\n<tr><td>proofs<td>7</tr>")
	require.NotContains(t, string(page), "<script")
	text := regexp.MustCompile(`xmlns(:\w+)?="[^"]*"`).ReplaceAllString(string(page), "")
	require.NotRegexp(t, `(?i)https?://|//[a-z]|\bsrc=|\bhref=|@import|url\(`, text)

	raw, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	var kept struct {
		OK      bool
		Verdict verdict
		Samples []map[string]float64
	}
	require.NoError(t, json.Unmarshal(raw, &kept))
	require.True(t, kept.OK)
	require.Equal(t, verdict{2}, kept.Verdict)
	require.InDelta(t, 2, kept.Samples[1]["arrived"], 0)
}

// RunVisits makes the given number of visits, and at most the given number at a time.
func TestVisits(t *testing.T) {
	t.Parallel()
	s := NewStage("http://localhost")
	inside := make(chan struct{}, 3)
	s.RunVisits(t.Context(), 20, cap(inside), time.Millisecond, 7, func(_ context.Context, i int) string {
		select {
		case inside <- struct{}{}:
			defer func() { <-inside }()
			return "came"
		default:
			return "too many"
		}
	})
	require.Equal(t, map[string]int{"came": 20}, s.Tally.Outcomes())
}
