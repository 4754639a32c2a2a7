package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"urr.guru/pkg/rounds"
)

// Report is the outcome of a run: .urr/bench/report.json, and the one that is kept in the repository.
type Report struct {
	StartedAt   time.Time       `json:"started_at"`
	TookSeconds float64         `json:"took_seconds"`
	Go          string          `json:"go"`
	Processors  int             `json:"processors"`
	Rows        []rounds.Result `json:"rows"`
	// RowSeconds is how long each row took; the first of a group includes the start of its processes.
	RowSeconds map[string]float64 `json:"row_seconds,omitempty"`
	// Failed are the rows that could not be measured.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is why a row could not be measured.
type Failure struct {
	Row   string `json:"row"`
	Error string `json:"error"`
}

// Reference reads the report that is kept in the repository with this root.
func Reference(root string) (r Report, err error) {
	raw, err := os.ReadFile(filepath.Join(root, "scripts", "bench", "reference.json"))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the kept report: %w", err)
	}
	return r, nil
}

// Row returns the result of a row; found is false if it was not measured.
func (r Report) Row(name string) (row rounds.Result, found bool) {
	for _, row := range r.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return row, false
}
