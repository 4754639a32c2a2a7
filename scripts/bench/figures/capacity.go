package figures

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"urr.guru/pkg/plan"
)

// sales returns the sizes of the sales in the documents' examples.
func sales() []plan.Opening {
	return []plan.Opening{
		{Kind: plan.Sale, Expected: plan.Expected{Visitors: 100_000, WithinSeconds: 60}},
		{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}},
	}
}

// planned returns the figures of the report in the form that the package plan needs.
func (r report) planned() plan.Figures {
	f := plan.Figures{Processors: r.Processors}
	for _, row := range r.Rows {
		f.Rows = append(f.Rows, plan.Row{Name: row.Name, Value: row.Value, Parts: row.Parts})
	}
	return f
}

// planFile returns the path of the file with the figures of plans; the gateway's image contains it.
func planFile(root string) string { return filepath.Join(root, "pkg", "plan", "figures.json") }

// planText returns the content of planFile.
func (r report) planText() ([]byte, error) {
	text, err := json.MarshalIndent(r.planned(), "", "  ")
	return append(text, '\n'), err
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
			row, v, _, ok := f.Cores(c, 0)
			µs := "not measured"
			if ok {
				µs = plan.Number(v)
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` | %s |", name, c.Process, row, µs)
			for _, s := range sales {
				rate := s.Requests()[i].Rate
				_, _, cores, _ := f.Cores(c, rate.PerSecond)
				fmt.Fprintf(&b, " %s | %s |", rate.Text(), plan.Number(cores))
			}
			b.WriteString("\n")
			name = ""
		}
	}
	return b.String()
}

// capacityTable returns a table of the processors that each process needs for each sale. It also
// has the memory and the writes that the stores need.
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
			cores, _ := f.Need(process, s)
			all[i] += cores
			return f.NeedText(process, s)
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
