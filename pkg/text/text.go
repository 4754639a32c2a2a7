// Package text has rules for text that people type.
package text

import (
	"strings"
	"unicode"
)

// blank has characters that show nothing: Hangul fillers and the empty Braille pattern.
const blank = "\u115f\u1160\u3164\uffa0\u2800"

// HasVisible reports whether s shows a reader anything: a letter, number, punctuation mark or
// symbol. Spaces, combining marks alone, format characters such as the zero-width space, and
// fillers show nothing.
func HasVisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !strings.ContainsRune(blank, r)
	})
}
