package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/process"
)

// Report is the content of report.json and report.html. A demo sets the fields from Title to
// Details, and Stage.WriteReport sets the others.
type Report struct {
	Title   string `json:"-"`
	Heading string `json:"-"`
	// Summary describes the run in one sentence.
	Summary string `json:"summary"`
	// Plots are the plots to draw from the samples.
	Plots  []Plot      `json:"-"`
	Counts NumberTable `json:"-"`
	// Outcomes has the number of visits that ended in each way; if nil, the stage's tally provides it.
	Outcomes map[string]int `json:"outcomes"`
	// Details are figures that only this demo has.
	Details map[string]any `json:"details"`

	Passed      bool      `json:"ok"`
	Verdict     Verdict   `json:"verdict"`
	Findings    []string  `json:"findings"`
	StartedAt   time.Time `json:"started_at"`
	TookSeconds float64   `json:"took_seconds"`
	// Steps has the latencies of requests of visitors and operators, by kind of request.
	Steps   []crowd.Summary `json:"steps"`
	Samples []RunSample     `json:"samples"`
	Figures []Figure        `json:"-"`
}

// NumberTable is a printed table of named numbers, such as how many visits ended in each way.
type NumberTable struct {
	Title, Name, Number string // the title, and the headings of the two columns
	Rows                []NamedNumber
}

// publish prints the tables and findings, and writes report.html and report.json into dir.
func (r *Report) publish(rec *crowd.Recorder, dir string) error {
	page, err := r.html(rec)
	if err != nil {
		return err
	}
	r.print()
	file := filepath.Join(dir, "report.html")
	if err := process.Save(filepath.Join(dir, "report.json"), r); err != nil {
		return err
	}
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	fmt.Printf("\nreport: %s and report.json\n", file)
	return nil
}

func (r *Report) print() {
	fmt.Printf("\n%.0f s. %s:\n", r.TookSeconds, r.Counts.Title)
	for _, row := range r.Counts.Rows {
		fmt.Printf("  %6d  %s\n", row.N, row.Name)
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\tcount\terrors\tp50 ms\tp99 ms\t")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t\n", s.Step, s.Count, s.Errors, s.P50, s.P99)
	}
	_ = w.Flush() // an error is ignored: it writes to standard output
	for _, f := range r.Findings {
		fmt.Println("finding:", f)
	}
}

//go:embed report.html.tmpl
var pageSource string

// html draws the figures and returns the page report.html, which loads no other file.
func (r *Report) html(rec *crowd.Recorder) ([]byte, error) {
	for _, plot := range r.Plots {
		figure, err := timeline(plot, r.Samples)
		if err != nil {
			return nil, err
		}
		r.Figures = append(r.Figures, figure)
	}
	if len(r.Steps) > 0 {
		figure, err := latencies(r.Steps, rec)
		if err != nil {
			return nil, err
		}
		r.Figures = append(r.Figures, figure)
	}
	extraRows := r.Counts.Rows
	r.Counts.Rows = nil
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		r.Counts.Rows = append(r.Counts.Rows, NamedNumber{outcome, int64(r.Outcomes[outcome])})
	}
	r.Counts.Rows = append(r.Counts.Rows, extraRows...)
	t, err := template.New("report").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, r); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return page.Bytes(), nil
}

// Figure is a drawn plot: an SVG image with its title and an explanation.
type Figure struct {
	Title, Text string
	SVG         template.HTML
}

// Plot is a plot to draw: lines over the seconds of a run.
type Plot struct {
	Title, Text string
	Lines       []PlotLine
}

// Color is the colour of a line.
type Color color.RGBA

// The colours of plots.
var (
	Blue   = Color{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}
	Orange = Color{R: 0xd9, G: 0x6c, B: 0x06, A: 0xff}
	Red    = Color{R: 0xb0, G: 0x1e, B: 0x2e, A: 0xff}
	Green  = Color{R: 0x1b, G: 0x7f, B: 0x4b, A: 0xff}
)

// PlotLine is a line of a plot. It shows the sampled values with the name Name or, if Level is set,
// that constant as a dashed line.
type PlotLine struct {
	Name  string
	Color Color
	Level float64
}

// timeline draws the lines of a plot over the seconds of the run.
func timeline(figure Plot, samples []RunSample) (Figure, error) {
	p := plot.New()
	p.X.Label.Text = "seconds"
	p.Y.Min = 0
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	for _, l := range figure.Lines {
		points := make(plotter.XYs, len(samples))
		for i, s := range samples {
			points[i] = plotter.XY{X: s[seconds], Y: s[l.Name]}
			if l.Level > 0 {
				points[i].Y = l.Level
			}
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return Figure{}, fmt.Errorf("plot %s: %w", figure.Title, err)
		}
		curve.Color = color.RGBA(l.Color)
		curve.Width = vg.Points(1.5)
		if l.Level > 0 {
			curve.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(curve)
		p.Legend.Add(l.Name, curve)
	}
	p.Y.Max *= 1.2 // room for the legend above the curves
	return render(p, figure.Title, figure.Text)
}

// latencies draws a box plot of the latencies of each step of the journey.
func latencies(steps []crowd.Summary, rec *crowd.Recorder) (Figure, error) {
	p := plot.New()
	p.Y.Label.Text = "milliseconds"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	var names []string
	for i, s := range steps {
		box, err := plotter.NewBoxPlot(vg.Points(18), float64(i), plotter.Values(rec.Latencies(s.Step)))
		if err != nil {
			return Figure{}, fmt.Errorf("plot latencies: %w", err)
		}
		box.FillColor = color.RGBA{R: 0xcf, G: 0xdf, B: 0xf5, A: 0xff}
		box.Outside = nil // outliers would make the boxes small; the table has the p99
		box.GlyphStyle.Radius = 0
		p.Add(box)
		p.Y.Max = min(p.Y.Max, 4*maxP50(steps)+1)
		names = append(names, string(s.Step))
	}
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = 0.6
	p.X.Tick.Label.XAlign = draw.XRight
	return render(p, "Latency per step",
		"Milliseconds as the visitors' browsers saw them: the box spans the quartiles, the line is the median, the whiskers 1.5 times the box.")
}

func maxP50(steps []crowd.Summary) float64 {
	m := 0.0
	for _, s := range steps {
		m = max(m, s.P50)
	}
	return m
}

func render(p *plot.Plot, title, text string) (Figure, error) {
	canvas := vgsvg.New(24*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return Figure{}, fmt.Errorf("plot %s: %w", title, err)
	}
	svg := b.String()
	if start := strings.Index(svg, "<svg"); start > 0 {
		svg = svg[start:] // removes the XML declaration, which SVG inside HTML must not have
	}
	return Figure{Title: title, Text: text, SVG: template.HTML(svg)}, nil //nolint:gosec // drawn here from numbers and known names
}
