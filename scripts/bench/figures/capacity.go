package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"urr.guru/pkg/plan"
)

// sales returns the sizes of sale that the documents have as examples.
func sales() []plan.Opening {
	return []plan.Opening{
		{Kind: plan.Sale, Expected: plan.Expected{Visitors: 100_000, WithinSeconds: 60}},
		{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}},
	}
}

// planned returns the figures of the report for plans.
func (r report) planned() plan.Figures {
	f := plan.Figures{Processors: r.Processors}
	for _, row := range r.Rows {
		f.Rows = append(f.Rows, plan.Row{Name: row.Name, Value: row.Value, Parts: row.Parts})
	}
	return f
}

// planFile is the file with the figures of plans, which the gateway's image contains.
func planFile(root string) string { return filepath.Join(root, "pkg", "plan", "figures.json") }

// planText returns the content of planFile.
func (r report) planText() ([]byte, error) {
	text, err := json.MarshalIndent(r.planned().Needed(), "", "  ")
	return append(text, '\n'), err
}

func (r report) writePlan(root string) error {
	text, err := r.planText()
	if err != nil {
		return err
	}
	return os.WriteFile(planFile(root), text, 0o644) //nolint:gosec // a file of the checkout
}

func header(b *strings.Builder, first, column string, sales []plan.Opening) {
	fmt.Fprint(b, first)
	for _, s := range sales {
		fmt.Fprintf(b, " "+column+" |", plan.Thousands(s.Visitors))
	}
}

// calculationTable returns a table that shows how the processors for each sale are calculated.
func (r report) calculationTable(sales []plan.Opening) string {
	var b strings.Builder
	f := r.planned()
	header(&b, "| at the peak | process | row | µs |", "%s visitors: requests/s | cores", sales)
	b.WriteString("\n| --- | --- | --- | ---: |" + strings.Repeat(" --- | ---: |", len(sales)) + "\n")
	for i, step := range sales[0].Requests() {
		name := step.Name
		for _, c := range step.Costs {
			µs := "not measured"
			if v, _, ok := f.Cores(c, 0); ok {
				µs = plan.Number(v)
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` | %s |", name, c.Process, f.Row(c), µs)
			for _, s := range sales {
				requests := s.Requests()[i]
				sum := requests.Sum
				if rate := plan.Number(requests.PerSecond); rate != sum {
					sum += " = " + rate
				}
				_, cores, _ := f.Cores(c, requests.PerSecond)
				fmt.Fprintf(&b, " %s | %s |", sum, plan.Number(cores))
			}
			b.WriteString("\n")
			name = ""
		}
	}
	return b.String()
}

// capacityTable returns a table of the processors that each process needs for each sale, and of what
// its stores take.
func (r report) capacityTable(sales []plan.Opening) string {
	var b strings.Builder
	f := r.planned()
	header(&b, "| cores |", "%s visitors", sales)
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sales)) + "\n")
	all := make([]float64, len(sales))
	line := func(name string, value func(int, plan.Opening) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for i, s := range sales {
			fmt.Fprintf(&b, " %s |", value(i, s))
		}
		b.WriteString("\n")
	}
	for _, process := range sales[0].Processes() {
		line(process, func(i int, s plan.Opening) string {
			cores, missing := f.Need(process, s)
			all[i] += cores
			need := plan.Number(cores)
			if len(missing) > 0 {
				need += ", without " + strings.Join(missing, ", ")
			}
			if cores == 0 {
				need = "not measured"
			}
			return need
		})
	}
	line("all", func(i int, _ plan.Opening) string { return plan.Number(all[i]) })
	line("MB of Redis for the line", func(_ int, s plan.Opening) string {
		if mb, ok := f.LineMemory(s); ok {
			return plan.Number(mb)
		}
		return "not measured"
	})
	line("write units of DynamoDB per second", func(_ int, s plan.Opening) string {
		units := 0.0
		for _, l := range s.Loads() {
			units += l.Writes
		}
		return plan.Number(units)
	})
	return b.String()
}
