package plan

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// Figures are the rows of a report of `make bench`, measured on a machine with these processors.
type Figures struct {
	Processors int   `json:"processors"`
	Rows       []Row `json:"rows"`
}

// Row has a measured value, and parts of it such as the CPU time of a process.
type Row struct {
	Name  string             `json:"name"`
	Value float64            `json:"value"`
	Parts map[string]float64 `json:"parts,omitempty"`
}

//go:embed figures.json
var kept []byte // written by `make figures` from scripts/bench/reference.json

// Kept returns the figures of the repository's report.
func Kept() (f Figures, err error) { return f, json.Unmarshal(kept, &f) }

// Cost says which part of which row of a report is the CPU time of a request in a process. If part
// is empty, the cost is the row's elapsed time multiplied by the processors: an upper bound. The
// first of the rows that has the part counts.
type Cost struct {
	Process string
	part    string
	rows    []string
}

// Row returns a row, or only its name if it was not measured.
func (f Figures) Row(name string) (r Row, measured bool) {
	if i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.Name == name }); i >= 0 {
		return f.Rows[i], true
	}
	return Row{Name: name}, false
}

// Cores returns the row with the CPU time of one request, this time in µs, and how many processors
// are busy with perSecond such requests per second. ok is false if that was not measured.
func (f Figures) Cores(c Cost, perSecond float64) (row string, µs, cores float64, ok bool) {
	for _, name := range c.rows {
		r, measured := f.Row(name)
		if c.part == "" {
			return r.Name, r.Value, r.Value * float64(f.Processors) * perSecond / 1e6, measured
		}
		if µs, ok = r.Parts[c.part]; ok {
			return r.Name, µs, µs * perSecond / 1e6, true
		}
	}
	return c.rows[0], 0, 0, false
}

// Need returns the processors that a process needs so that it is only half busy at the peak, and the
// names of needed rows that were not measured.
func (f Figures) Need(process string, o Opening) (cores float64, missing []string) {
	for _, r := range o.Requests() {
		for _, c := range r.Costs {
			if c.Process != process {
				continue
			}
			row, _, more, ok := f.Cores(c, r.PerSecond)
			if !ok {
				missing = append(missing, "`"+row+"`")
			}
			cores += more / Busy
		}
	}
	return cores, missing
}

// ServiceCores returns the processors that each service needs, without processes that were measured
// together with stores.
func (f Figures) ServiceCores(o Opening) map[string]float64 {
	out := map[string]float64{}
	for _, process := range o.Processes() {
		if cores, _ := f.Need(process, o); cores > 0 && !strings.Contains(process, redis) && !strings.Contains(process, ",") {
			out[process] = cores
		}
	}
	return out
}

// LineMemory returns the megabytes of Redis for the visitors who wait in tier 2.
func (f Figures) LineMemory(o Opening) (mb float64, measured bool) {
	r, ok := f.Row("redis_mb_per_million_waiting")
	return r.Value * o.Line() / 1e6, ok
}
