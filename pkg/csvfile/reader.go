package csvfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	// beginning is how much of a file decides what separates its cells.
	beginning = 4096
	// sample is how much text decides between UTF-8 and CP949. A transform.Reader buffers 4096 bytes.
	sample = 2048
	// separators are what spreadsheets put between cells: a comma; a semicolon where the comma is the
	// decimal sign; a tab in "Unicode text".
	separators = ",;\t"
	// saveAs says what can be done about a file that cannot be read.
	saveAs = `; save it as "CSV UTF-8"`
)

// Error says what is wrong with a line of a file.
type Error struct {
	Line    int // from 1
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d %s", e.Line, e.Message) }

// Reader reads the records of a file as spreadsheets write it: in UTF-8, in UTF-16 with a byte
// order mark, or in CP949 (Windows in Korean), with any of the separators. It skips records without
// content. It reads ahead a few kilobytes only.
type Reader struct {
	csv    *csv.Reader
	header []string
}

// NewReader makes a Reader, and reads the first record with content as the header. It fails with an
// *Error if there is none, or if it is not text, and with the error of the file.
func NewReader(file io.Reader) (*Reader, error) {
	decoded := bufio.NewReaderSize(transform.NewReader(file, unicode.BOMOverride(&utf8OrCP949{})), beginning)
	begin, err := decoded.Peek(beginning)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	if bytes.HasPrefix(first, []byte("PK\x03\x04")) || bytes.IndexByte(first, 0) >= 0 {
		return nil, &Error{Line: 1, Message: "is not text, but perhaps a spreadsheet's own format" + saveAs}
	}
	if bytes.IndexByte(first, '\r') >= 0 && len(first) == len(begin) {
		return nil, &Error{Line: 1, Message: "does not end in a line feed" + saveAs}
	}
	r := &Reader{csv: csv.NewReader(decoded)}
	r.csv.Comma, r.csv.FieldsPerRecord, r.csv.ReuseRecord = separatorOf(begin), -1, true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{Line: 1, Message: "is empty"}
	}
	r.header = header
	return r, err
}

// separatorOf returns the most frequent separator of the first line with content.
func separatorOf(begin []byte) rune {
	for line := range bytes.Lines(begin) {
		if len(bytes.Trim(line, separators+"\" \r\n")) == 0 {
			continue
		}
		best, most := ',', 0
		for _, s := range separators {
			if n := countUnquoted(line, byte(s)); n > most {
				best, most = s, n
			}
		}
		return best
	}
	return ','
}

func countUnquoted(line []byte, separator byte) (n int) {
	quoted := false
	for _, b := range line {
		switch {
		case b == '"':
			quoted = !quoted
		case b == separator && !quoted:
			n++
		}
	}
	return n
}

// Header returns the cells of the header.
func (r *Reader) Header() []string { return r.header }

// Line returns the number of the line at which the latest record begins.
func (r *Reader) Line() int {
	line, _ := r.csv.FieldPos(0)
	return line
}

// Read returns the next record with content, with a cell for each cell of the header: spreadsheets
// leave empty cells at the end of a line out, or add some. It removes white space around a cell,
// and the apostrophe that marks it as text. It fails with io.EOF at the end, with the error of the
// file, and with an *Error, after which it can be called again.
func (r *Reader) Read() ([]string, error) {
	for {
		record, err := r.csv.Read()
		var notCSV *csv.ParseError
		if errors.As(err, &notCSV) {
			return nil, &Error{Line: notCSV.Line, Message: "is not CSV: " + notCSV.Err.Error()}
		}
		if err != nil {
			return nil, err
		}
		cells, content := make([]string, len(r.header), max(len(r.header), len(record))), false
		for i, cell := range record {
			if !utf8.ValidString(cell) || strings.ContainsRune(cell, utf8.RuneError) {
				return nil, &Error{Line: r.Line(), Message: "has characters that are neither UTF-8 nor CP949" + saveAs}
			}
			cell = strings.TrimSpace(strings.TrimPrefix(cell, "'"))
			content = content || cell != ""
			if i < len(r.header) {
				cells[i] = cell
			} else if r.header == nil {
				cells = append(cells, cell)
			} else if cell != "" {
				return nil, &Error{Line: r.Line(), Message: "has more cells than the header; a cell with a separator needs quotes"}
			}
		}
		if content {
			return cells, nil
		}
	}
}

// utf8OrCP949 decodes text that has no byte order mark. As long as it is ASCII it is both.
type utf8OrCP949 struct {
	transform.NopResetter

	decoder transform.Transformer // nil while only ASCII was read
}

// Transform implements transform.Transformer.
func (d *utf8OrCP949) Transform(dst, src []byte, atEOF bool) (written, read int, err error) {
	if d.decoder == nil {
		ascii := 0
		for ascii < len(src) && src[ascii] < utf8.RuneSelf {
			ascii++
		}
		written = copy(dst, src[:ascii])
		switch rest := src[ascii:]; {
		case written < ascii:
			return written, written, transform.ErrShortDst
		case len(rest) == 0:
			return written, written, nil
		case len(rest) < sample && !atEOF:
			return written, written, transform.ErrShortSrc
		case looksLikeUTF8(rest[:min(len(rest), sample)]):
			d.decoder = transform.Nop
		default:
			d.decoder = korean.EUCKR.NewDecoder() // with the extension of CP949
		}
	}
	w, n, err := d.decoder.Transform(dst[written:], src[written:], atEOF)
	return written + w, written + n, err
}

// looksLikeUTF8 reports whether text is valid UTF-8; a character that it ends in may be cut.
func looksLikeUTF8(text []byte) bool {
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		text = text[size:]
	}
	return len(text) < utf8.UTFMax
}
