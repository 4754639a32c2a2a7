// Package csvfile writes CSV files (RFC 4180) whose cells a spreadsheet treats as text, and reads the
// files that spreadsheets write.
//
// A spreadsheet runs a cell that begins like a formula, even if it is quoted, and exports contain
// text from users and from sign-in providers. Writer puts an apostrophe in front of such a cell,
// and of a cell that begins with an apostrophe. So a program that reads the file removes the first
// apostrophe of each cell that begins with one. Numbers stay as they are. OWASP describes the
// attack as CSV injection.
package csvfile

import (
	"encoding/csv"
	"io"
	"regexp"
)

var (
	// formula matches cells that a spreadsheet may run; some spreadsheets accept full-width signs.
	formula = regexp.MustCompile(`^['=+\-@\t\r\n＝＋－＠]`)
	number  = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)
)

// Writer writes records to a file. A failed write is reported by the next call of Flush.
type Writer struct {
	records *csv.Writer
}

// NewWriter makes a Writer. The caller must call Flush at the end.
func NewWriter(file io.Writer) *Writer {
	records := csv.NewWriter(file)
	records.UseCRLF = true
	return &Writer{records: records}
}

// Write adds one record. A failure is returned by Flush.
func (w *Writer) Write(cells ...string) {
	record := make([]string, len(cells))
	for i, cell := range cells {
		record[i] = escapeFormula(cell)
	}
	_ = w.records.Write(record) // Flush returns the error
}

// Flush writes the buffered records and returns the first error of any write.
func (w *Writer) Flush() error {
	w.records.Flush()
	return w.records.Error()
}

func escapeFormula(cell string) string {
	if formula.MatchString(cell) && !number.MatchString(cell) {
		return "'" + cell
	}
	return cell
}
