package main

import (
	"urr.guru/scripts/audit"
	"urr.guru/scripts/demo"
)

// plots draws the report's figures.
func (d *saleDemo) plots(r Report) ([]demo.Figure, error) {
	type line = demo.Line[audit.Sample]
	over := []struct {
		title, text string
		fromStores  bool // visible in the stores only
		lines       []line
	}{
		{"Arrivals and serving counter", "Visitors who came, and how many positions of tier 1 have been served.", false, []line{
			{Name: "arrived", Color: demo.Blue, Value: func(s audit.Sample) float64 { return float64(s.Arrived) }},
			{Name: "serving counter", Color: demo.Orange, Value: func(s audit.Sample) float64 { return float64(s.Serving) }},
		}},
		{"Tier 2: waiting", "Visitors in the line, and those who are away and keep their place.", true, []line{
			{Name: "waiting", Color: demo.Blue, Value: func(s audit.Sample) float64 { return float64(s.Waiting) }},
			{Name: "parked", Color: demo.Orange, Value: func(s audit.Sample) float64 { return float64(s.Parked) }},
		}},
		{"Tier 2: active against the threshold", "How many are inside; the line must stay under the threshold.", true, []line{
			{Name: "active", Color: demo.Green, Value: func(s audit.Sample) float64 { return float64(s.Active) }},
			{Name: "threshold", Color: demo.Red, Dashed: true, Value: func(audit.Sample) float64 { return float64(r.Threshold) }},
		}},
		{"Seats sold and held over time", "The sale ends at the number of seats.", false, []line{
			{Name: "sold", Color: demo.Green, Value: func(s audit.Sample) float64 { return float64(s.Sold) }},
			{Name: "held", Color: demo.Orange, Value: func(s audit.Sample) float64 { return float64(s.Held) }},
			{Name: "seats", Color: demo.Red, Dashed: true, Value: func(audit.Sample) float64 { return float64(r.Seats) }},
		}},
	}
	var out []demo.Figure
	for _, f := range over {
		if f.fromStores && d.cfg.withoutStores() {
			continue
		}
		figure, err := demo.Timeline(f.title, f.text, r.Series, func(s audit.Sample) float64 { return s.Seconds }, f.lines...)
		if err != nil {
			return nil, err
		}
		out = append(out, figure)
	}
	latencies, err := demo.Latencies(r.Steps, d.recorder)
	return append(out, latencies), err
}
