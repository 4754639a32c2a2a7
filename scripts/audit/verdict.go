package audit

import "fmt"

// LastLine is the last line of a run: ok or FAILED, its figures, and the number of other faults if
// there are any.
func LastLine(name string, ok bool, figures string, other int) string {
	word := "ok"
	if !ok {
		word = "FAILED"
	}
	line := name + " " + word + ": " + figures
	if other > 0 {
		line += fmt.Sprintf(" other=%d", other)
	}
	return line
}

// maxFindings keeps the report readable when there are many findings.
const maxFindings = 10

// Findings are the evidence of a verdict, a sentence each.
type Findings []string

// Add adds a finding unless there are many.
func (f *Findings) Add(format string, args ...any) {
	if len(*f) < maxFindings {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}
