// Package figures generates the sections with measured figures in documents, from the reference
// report of `make bench`: the table of rows, and the processors that sales need.
package figures

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/plan"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/section"
)

// Write generates the sections with measured figures in the documents of the checkout at root, and
// the file with the figures of plans.
func Write(root string) error {
	reference, err := bench.Reference(root)
	if err != nil {
		return err
	}
	r := report{reference}
	text, err := r.planText()
	if err != nil {
		return err
	}
	if err := os.WriteFile(planFile(root), text, 0o644); err != nil { //nolint:gosec // a file of the checkout
		return fmt.Errorf("write the figures of plans: %w", err)
	}
	for _, d := range r.generatedSections() {
		if err := section.Write(filepath.Join(root, d.path), d.section, d.text); err != nil {
			return err
		}
	}
	return nil
}

// document is a generated section: the path of its document, its name, and its text.
type document struct{ path, section, text string }

func (r report) generatedSections() []document {
	guide := filepath.Join("scripts", "bench", "README.md")
	return []document{
		{"README.md", "figures", r.capacityTable(sales())},
		{guide, "figures", r.rowsTable() + "\n" + r.calculationTable(sales())},
	}
}

// report is the reference report of `make bench`, with methods that format it as tables.
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
			row.Name, plan.Number(row.Value), row.Unit, baselineFigure(row, row.Baseline), baselineFigure(row, row.Ratio), requirements(row), judgement(row))
	}
	return what.String() + "\n" + b.String()
}

// baselineFigure formats a figure of a row that has a baseline. For other rows it returns "".
func baselineFigure(row benchtest.Result, figure float64) string {
	if row.Besides == "" {
		return ""
	}
	return plan.Number(figure)
}

// requirements returns the limits of a row: the least ratio to the baseline, and limits of parts.
func requirements(row benchtest.Result) string {
	var all []string
	if row.Must > 0 {
		all = append(all, "≥ "+plan.Number(row.Must))
	}
	for _, name := range slices.Sorted(maps.Keys(row.Limits)) {
		all = append(all, fmt.Sprintf("%s ≤ %s", name, plan.Number(row.Limits[name])))
	}
	return strings.Join(all, ", ")
}

// judgement returns whether a row keeps its limits or, if not, which figures do not.
func judgement(row benchtest.Result) string {
	var missed []string
	if row.Ratio < row.Must {
		missed = append(missed, "ratio "+plan.Number(row.Ratio))
	}
	for _, name := range row.Exceeded() {
		missed = append(missed, name+" "+plan.Number(row.Parts[name]))
	}
	if len(missed) == 0 {
		return "yes"
	}
	return "**no**: " + strings.Join(missed, ", ")
}
