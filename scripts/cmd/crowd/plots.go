package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
)

// figure is one plot of the report.
type figure struct {
	Title, Text string
	SVG         template.HTML
}

var (
	blue   = color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}
	orange = color.RGBA{R: 0xd9, G: 0x6c, B: 0x06, A: 0xff}
	red    = color.RGBA{R: 0xb0, G: 0x1e, B: 0x2e, A: 0xff}
	green  = color.RGBA{R: 0x1b, G: 0x7f, B: 0x4b, A: 0xff}
)

// line is a value over the seconds of the run.
type line struct {
	name   string
	color  color.Color
	dashed bool
	value  func(audit.Sample) float64
}

// plots draws the report's figures as SVG.
func (d *demo) plots(r Report) ([]figure, error) {
	over := []struct {
		title, text string
		fromStores  bool // visible in the stores only
		lines       []line
	}{
		{"Arrivals and serving counter", "Visitors who came, and how many positions of tier 1 have been served.", false, []line{
			{"arrived", blue, false, func(s audit.Sample) float64 { return float64(s.Arrived) }},
			{"serving counter", orange, false, func(s audit.Sample) float64 { return float64(s.Serving) }},
		}},
		{"Tier 2: waiting", "Visitors in the line, and those who are away and keep their place.", true, []line{
			{"waiting", blue, false, func(s audit.Sample) float64 { return float64(s.Waiting) }},
			{"parked", orange, false, func(s audit.Sample) float64 { return float64(s.Parked) }},
		}},
		{"Tier 2: active against the threshold", "How many are inside; the line must stay under the threshold.", true, []line{
			{"active", green, false, func(s audit.Sample) float64 { return float64(s.Active) }},
			{"threshold", red, true, func(audit.Sample) float64 { return float64(r.Threshold) }},
		}},
		{"Seats sold and held over time", "The sale ends at the number of seats.", false, []line{
			{"sold", green, false, func(s audit.Sample) float64 { return float64(s.Sold) }},
			{"held", orange, false, func(s audit.Sample) float64 { return float64(s.Held) }},
			{"seats", red, true, func(audit.Sample) float64 { return float64(r.Seats) }},
		}},
	}
	var out []figure
	for _, f := range over {
		if f.fromStores && d.cfg.withoutStores() {
			continue
		}
		svg, err := timeline(r.Series, f.lines)
		if err != nil {
			return nil, fmt.Errorf("plot %s: %w", f.title, err)
		}
		out = append(out, figure{Title: f.title, Text: f.text, SVG: svg})
	}
	svg, err := latencies(r.Steps, d.recorder)
	if err != nil {
		return nil, fmt.Errorf("plot latencies: %w", err)
	}
	return append(out, figure{
		Title: "Latency per step", SVG: svg,
		Text: "Milliseconds as the visitors' browsers saw them: the box spans the quartiles, the line is the median, the whiskers 1.5 times the box.",
	}), nil
}

func timeline(samples []audit.Sample, lines []line) (template.HTML, error) {
	p := plot.New()
	p.X.Label.Text = "seconds"
	p.Y.Min = 0
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	for _, l := range lines {
		points := make(plotter.XYs, len(samples))
		for i, s := range samples {
			points[i] = plotter.XY{X: s.Seconds, Y: l.value(s)}
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return "", err
		}
		curve.Color = l.color
		curve.Width = vg.Points(1.5)
		if l.dashed {
			curve.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(curve)
		p.Legend.Add(l.name, curve)
	}
	p.Y.Max *= 1.2 // room for the legend above the curves
	return render(p)
}

// latencies draws one box per step of the journey.
func latencies(steps []crowd.Summary, rec *crowd.Recorder) (template.HTML, error) {
	p := plot.New()
	p.Y.Label.Text = "milliseconds"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	var names []string
	for i, s := range steps {
		box, err := plotter.NewBoxPlot(vg.Points(18), float64(i), plotter.Values(rec.Latencies(s.Step)))
		if err != nil {
			return "", err
		}
		box.FillColor = color.RGBA{R: 0xcf, G: 0xdf, B: 0xf5, A: 0xff}
		box.Outside = nil // outliers would compress the boxes; the table has the p99
		box.GlyphStyle.Radius = 0
		p.Add(box)
		p.Y.Max = min(p.Y.Max, 4*maxP50(steps)+1)
		names = append(names, string(s.Step))
	}
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = 0.6
	p.X.Tick.Label.XAlign = draw.XRight
	return render(p)
}

func maxP50(steps []crowd.Summary) float64 {
	m := 0.0
	for _, s := range steps {
		m = max(m, s.P50)
	}
	return m
}

func render(p *plot.Plot) (template.HTML, error) {
	canvas := vgsvg.New(24*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	svg := b.String()
	if at := strings.Index(svg, "<svg"); at > 0 {
		svg = svg[at:] // embedded in HTML, SVG has no XML declaration
	}
	return template.HTML(svg), nil //nolint:gosec // drawn here, from numbers and our own names
}
