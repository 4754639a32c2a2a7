// Package figures generates the sections of the documents that have measured figures, from the
// report of `make bench` in the repository: the table of rows, and the processors that sales need.
package figures

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/section"
)

// Write generates the sections with measured figures in the documents of the checkout at root.
func Write(root string) error {
	documents, err := generatedSections(root)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := section.Write(filepath.Join(root, d.path), d.section, d.text); err != nil {
			return err
		}
	}
	return nil
}

// document is a generated section: the path of the document, the name of the section, and its text.
type document struct{ path, section, text string }

func generatedSections(root string) ([]document, error) {
	kept, err := bench.Reference(root)
	if err != nil {
		return nil, err
	}
	r := report{kept}
	guide := filepath.Join("scripts", "bench", "README.md")
	return []document{
		{"README.md", "figures", r.capacityTable(sales())},
		{guide, "figures", r.rowsTable() + "\n" + r.calculationTable(sales())},
	}, nil
}

// report is the repository's report of `make bench`, with methods that format it as tables.
type report struct{ bench.Report }

// rowsTable returns two tables of all rows: what each row measures, and the measured figures.
func (r report) rowsTable() string {
	var what, b strings.Builder
	what.WriteString("| row | what | beside |\n| --- | --- | --- |\n")
	fmt.Fprintf(&b, "Measured on %s with %s and %d processors.\n\n", r.StartedAt.Format("2006-01-02"), r.Go, r.Processors)
	b.WriteString("| row | value | unit | baseline | ratio | must | reached |\n| --- | ---: | --- | ---: | ---: | --- | --- |\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&what, "| `%s` | %s | %s |\n", row.Name, row.What, row.Besides)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
			row.Name, formatNumber(row.Value), row.Unit, baselineFigure(row, row.Baseline), baselineFigure(row, row.Ratio), requirements(row), judgement(row))
	}
	return what.String() + "\n" + b.String()
}

// baselineFigure formats a figure of a row that has a baseline; it returns "" for other rows.
func baselineFigure(row rounds.Result, figure float64) string {
	if row.Besides == "" {
		return ""
	}
	return formatNumber(figure)
}

// requirements lists the limits of a row: the least ratio to the baseline, and limits of its parts.
func requirements(row rounds.Result) string {
	var all []string
	if row.Must > 0 {
		all = append(all, "≥ "+formatNumber(row.Must))
	}
	for _, name := range slices.Sorted(maps.Keys(row.Limits)) {
		all = append(all, fmt.Sprintf("%s ≤ %s", name, formatNumber(row.Limits[name])))
	}
	return strings.Join(all, ", ")
}

// judgement says whether a row keeps its limits, and if not, which figures miss them.
func judgement(row rounds.Result) string {
	var missed []string
	if row.Ratio < row.Must {
		missed = append(missed, "ratio "+formatNumber(row.Ratio))
	}
	for _, name := range row.Exceeded() {
		missed = append(missed, name+" "+formatNumber(row.Parts[name]))
	}
	if len(missed) == 0 {
		return "yes"
	}
	return "**no**: " + strings.Join(missed, ", ")
}

// formatNumber formats a value with three digits: at most two decimals, and none from 100 on.
func formatNumber(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) < 0.005:
		return "< 0.01"
	case math.Abs(v) >= 99.95:
		return formatThousands(int64(math.Round(v)))
	case math.Abs(v) >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func formatThousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", formatThousands(n/1000), n%1000)
}
