// Package csvfile writes CSV files (RFC 4180) whose cells a spreadsheet takes for text.
//
// A spreadsheet runs a cell that begins like a formula, whether or not it is quoted, and exports
// contain what people typed or what a sign-in provider sent. Such a cell gets an apostrophe in
// front, and so does one that begins with an apostrophe: whoever reads a file back removes one from
// each cell that has it. Numbers stay as they are. OWASP describes the attack as CSV injection.
package csvfile

import (
	"encoding/csv"
	"io"
	"regexp"
)

var (
	// formula matches what a spreadsheet may run, with the full-width signs that some of them accept.
	formula = regexp.MustCompile(`^['=+\-@\t\r\n＝＋－＠]`)
	number  = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)
)

// Writer writes records to a file. A failed write is reported by the next call of Flush.
type Writer struct {
	records *csv.Writer
}

// NewWriter makes a writer. Its caller calls Flush at the end.
func NewWriter(file io.Writer) *Writer {
	records := csv.NewWriter(file)
	records.UseCRLF = true
	return &Writer{records: records}
}

// Write adds a record with the given cells.
func (w *Writer) Write(cells ...string) {
	record := make([]string, len(cells))
	for i, cell := range cells {
		record[i] = text(cell)
	}
	_ = w.records.Write(record) // Flush returns the error
}

// Flush writes what is buffered and returns the first error of any write.
func (w *Writer) Flush() error {
	w.records.Flush()
	return w.records.Error()
}

func text(cell string) string {
	if formula.MatchString(cell) && !number.MatchString(cell) {
		return "'" + cell
	}
	return cell
}
