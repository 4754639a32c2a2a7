// Package text has rules for text that people type.
package text

import (
	"strings"
	"unicode"
)

// blank are letters and symbols without a shape: the Hangul fillers and the empty Braille pattern.
const blank = "\u115f\u1160\u3164\uffa0\u2800"

// HasVisible reports whether a reader sees anything of s: a letter, number, punctuation mark or
// symbol. Spaces, marks without a letter to stand on, format characters such as the zero-width space,
// and fillers show nothing.
func HasVisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !strings.ContainsRune(blank, r)
	})
}
