package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// offsetOf converts a position of protojson (line and column from 1, columns in runes) to a byte
// offset.
func offsetOf(b []byte, line, column int) int {
	off := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(b[off:], '\n')
		if i < 0 {
			return len(b)
		}
		off += i + 1
	}
	for ; column > 1 && off < len(b); column-- {
		_, n := utf8.DecodeRune(b[off:])
		off += n
	}
	return off
}

// pathLevel is one object or array around the current position in a JSON document.
type pathLevel struct {
	array bool
	name  string // object: the current field
	index int    // array: the current element
	value bool   // object: a name was read, its value comes next
}

// pathAt returns the path of the field whose name or value begins at the offset. ok is false when
// b is not valid JSON up to there.
func pathAt(b []byte, offset int) (path string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var stack []pathLevel
	for {
		tok, err := dec.Token()
		if err != nil {
			return "", false
		}
		delim, isDelim := tok.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			stack = stack[:len(stack)-1]
			if int(dec.InputOffset()) > offset {
				return "", false
			}
			advancePastValue(stack)
			continue
		}
		if n := len(stack); n > 0 && !stack[n-1].array && !stack[n-1].value {
			stack[n-1].name, _ = tok.(string)
			stack[n-1].value = true
			if int(dec.InputOffset()) > offset {
				return joinPath(stack), true
			}
			continue
		}
		if int(dec.InputOffset()) > offset {
			return joinPath(stack), true
		}
		if isDelim {
			stack = append(stack, pathLevel{array: delim == '['})
			continue
		}
		advancePastValue(stack)
	}
}

// advancePastValue records, in the innermost object or array, that a value was read.
func advancePastValue(stack []pathLevel) {
	if n := len(stack); n > 0 {
		stack[n-1].value = false
		stack[n-1].index++
	}
}

func joinPath(stack []pathLevel) string {
	var s strings.Builder
	for _, l := range stack {
		switch {
		case l.array:
			s.WriteString("[" + strconv.Itoa(l.index) + "]")
		case s.Len() > 0:
			s.WriteString("." + l.name)
		default:
			s.WriteString(l.name)
		}
	}
	return s.String()
}
