package plan

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Row is what `make bench` has measured: the value, and parts of it such as the CPU time of a process.
type Row struct {
	Name  string             `json:"name"`
	Value float64            `json:"value"`
	Parts map[string]float64 `json:"parts,omitempty"`
}

// Figures are the rows of a report, measured on a machine with so many processors.
type Figures struct {
	Processors int   `json:"processors"`
	Rows       []Row `json:"rows"`
}

//go:embed figures.json
var kept []byte // written by `make figures` from scripts/bench/reference.json

// Kept returns the figures of the repository's report.
func Kept() (f Figures, err error) {
	if err = json.Unmarshal(kept, &f); err != nil {
		err = fmt.Errorf("pkg/plan/figures.json: %w", err)
	}
	return f, err
}

// Needed returns the figures without the rows that no plan uses.
func (f Figures) Needed() Figures {
	used := []string{lineMemory}
	for _, k := range requestKinds() {
		for _, c := range k.Costs {
			used = append(used, c.rows...)
		}
	}
	f.Rows = slices.DeleteFunc(slices.Clone(f.Rows), func(r Row) bool { return !slices.Contains(used, r.Name) })
	return f
}

// lineMemory is the row with the memory of Redis per million visitors who wait.
const lineMemory = "redis_mb_per_million_waiting"

// row returns the first of the rows that was measured.
func (f Figures) row(names ...string) (r Row, ok bool) {
	for _, name := range names {
		if i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.Name == name }); i >= 0 {
			return f.Rows[i], true
		}
	}
	return Row{}, false
}

// Cost says where the report has the CPU time of one request in one process: as a part of a row. If
// part is empty, the cost is the row's elapsed time multiplied by the number of processors: an upper
// bound. Of several rows the first that was measured counts.
type Cost struct {
	Process string
	part    string
	rows    []string
}

// Row returns the name of the row that counts.
func (f Figures) Row(c Cost) string {
	if r, ok := f.row(c.rows...); ok {
		return r.Name
	}
	return c.rows[0]
}

// Cores returns the CPU time of one request, and how many processors perSecond such requests per
// second keep busy. ok is false if the row was not measured.
func (f Figures) Cores(c Cost, perSecond float64) (µs, cores float64, ok bool) {
	r, found := f.row(c.rows...)
	if !found {
		return 0, 0, false
	}
	if c.part == "" {
		return r.Value, r.Value * float64(f.Processors) * perSecond / 1e6, true
	}
	µs, found = r.Parts[c.part]
	return µs, µs * perSecond / 1e6, found
}

// Need returns the processors that a process needs at the peak, with none more than Busy. missing has
// the names of needed rows that were not measured.
func (f Figures) Need(process string, o Opening) (cores float64, missing []string) {
	for _, k := range o.Requests() {
		for _, c := range k.Costs {
			if c.Process != process {
				continue
			}
			_, more, ok := f.Cores(c, k.PerSecond)
			if !ok {
				missing = append(missing, "`"+c.rows[0]+"`")
			}
			cores += more / Busy
		}
	}
	return cores, missing
}

// LineMemory returns the megabytes of Redis for the visitors who wait in tier 2.
func (f Figures) LineMemory(o Opening) (mb float64, ok bool) {
	r, ok := f.row(lineMemory)
	return r.Value * o.Line() / 1e6, ok
}
