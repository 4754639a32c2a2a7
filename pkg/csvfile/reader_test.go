package csvfile_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/korean"

	"urr.guru/pkg/csvfile"
)

// readAll returns the records of a file, without cells that have no name in the header.
func readAll(t *testing.T, file io.Reader) (header []string, records [][]string) {
	t.Helper()
	r, err := csvfile.NewReader(file)
	require.NoError(t, err)
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return r.Header(), records
		}
		require.NoError(t, err)
		require.Len(t, record, len(r.Header()))
		records = append(records, record)
	}
}

// The files have the same table, as spreadsheets write it in several formats and countries.
func TestFilesOfSpreadsheets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/spreadsheets/*")
	require.NoError(t, err)
	require.Len(t, files, 13)
	for _, name := range files {
		written, err := os.ReadFile(name)
		require.NoError(t, err)
		for how, file := range map[string]io.Reader{"at once": bytes.NewReader(written), "byte by byte": iotest.OneByteReader(bytes.NewReader(written))} {
			header, records := readAll(t, file)
			require.Equal(t, []string{"userId", "email", "name", "note"}, header[:4], name)
			var got [][]string
			for _, r := range records {
				r[3] = strings.NewReplacer("\n", " ", `"`, "").Replace(r[3]) // tab-separated values of Google have neither
				got = append(got, r[:4])
			}
			require.Equal(t, [][]string{
				{"kim-1", "Kim@Example.com", "김하나", "says hi, twice"},
				{"", "lee@example.com", "이둘", "two lines"},
				{"choi_3", "", "최셋", ""},
				{"-park4", "", "박; 넷", "=1+1"},
			}, got, "%s, %s", name, how)
		}
	}
}

// The first character outside of ASCII may come late in a file.
func TestLateCharacters(t *testing.T) {
	t.Parallel()
	ascii := "id,name\n" + strings.Repeat("a,b\n", 3000)
	for name, encode := range map[string]func(string) (string, error){
		"UTF-8": func(s string) (string, error) { return s, nil }, "CP949": korean.EUCKR.NewEncoder().String,
	} {
		for _, many := range []int{1, 5000} {
			korean, err := encode(strings.Repeat("x,똠방각하\n", many))
			require.NoError(t, err)
			_, records := readAll(t, strings.NewReader(ascii+korean))
			require.Len(t, records, 3000+many, name)
			for _, r := range records[3000:] {
				require.Equal(t, []string{"x", "똠방각하"}, r, name)
			}
		}
	}
}

// An error names the line; the lines after it can still be read.
func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	const encoding = `has characters that are neither UTF-8 nor CP949; save it as "CSV UTF-8"`
	broken := errors.New("the connection broke")
	for name, c := range map[string]struct {
		file string
		want csvfile.Error
	}{
		"nothing":        {"", csvfile.Error{Line: 1, Message: "is empty"}},
		"no content":     {",,\r\n\"\",,\r\n", csvfile.Error{Line: 1, Message: "is empty"}},
		"old Mac":        {"id\ra\r", csvfile.Error{Line: 1, Message: `does not end in a line feed; save it as "CSV UTF-8"`}},
		"UTF-16, no BOM": {"i\x00d\x00\n\x00", csvfile.Error{Line: 1, Message: `is not text, but perhaps a spreadsheet's own format; save it as "CSV UTF-8"`}},
		"two encodings":  {"id\n" + strings.Repeat("한글\n", 400) + "\xc7\xd1\nx\n", csvfile.Error{Line: 402, Message: encoding}},
		"neither":        {"id\na\n\xff\xff\nx\n", csvfile.Error{Line: 3, Message: encoding}},
		"too many cells": {"id;name\n\na;b;c\nx;\n", csvfile.Error{Line: 3, Message: "has more cells than the header; a cell with a separator needs quotes"}},
		"quotes":         {"id\na\"\nx\n", csvfile.Error{Line: 2, Message: `is not CSV: bare " in non-quoted-field`}},
	} {
		r, err := csvfile.NewReader(strings.NewReader(c.file))
		for err == nil {
			_, err = r.Read()
		}
		got := &csvfile.Error{}
		require.ErrorAs(t, err, &got, name)
		require.Equal(t, c.want, *got, name)
		if r != nil {
			record, err := r.Read()
			require.NoError(t, err, name)
			require.Equal(t, "x", record[0], name)
		}
	}
	for _, file := range []string{"", "id\n" + strings.Repeat("a\n", 5000)} {
		r, err := csvfile.NewReader(io.MultiReader(strings.NewReader(file), iotest.ErrReader(broken)))
		for err == nil {
			_, err = r.Read()
		}
		require.ErrorIs(t, err, broken)
	}
}
