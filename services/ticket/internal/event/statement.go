package event

import (
	"fmt"
	"strings"

	"urr.guru/pkg/errs"
)

// The limits of what Stripe lets a card's statement name: a prefix of the account, an asterisk, a space
// and a suffix of the charge (docs.stripe.com/get-started/account/statement-descriptors).
const (
	maxStatement       = 22
	minStatementPrefix = 2
	maxStatementPrefix = 10
)

// StatementPart reports whether Stripe accepts a text as a part of what statements name: of Latin
// characters, with a letter, and without some special characters. Its length is not checked.
func StatementPart(text string) bool {
	forbidden := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>\'"*`, r) }
	letter := func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }
	return !strings.ContainsFunc(text, forbidden) && strings.ContainsFunc(text, letter) && text == strings.TrimSpace(text)
}

// StatementPrefix reports whether a text may be the prefix of an account.
func StatementPrefix(text string) bool {
	return StatementPart(text) && len(text) >= minStatementPrefix && len(text) <= maxStatementPrefix
}

// StatementRoom returns the most characters of a StatementSuffix beside the account's prefix. An empty
// prefix is not known, and may be the longest.
func StatementRoom(prefix string) int {
	room := maxStatement - len("* ") - len(prefix)
	if prefix == "" {
		room -= maxStatementPrefix
	}
	return room
}

// checkStatement checks the characters of the StatementSuffix.
func (s *Spec) checkStatement() []errs.Field {
	if s.StatementSuffix == nil || *s.StatementSuffix == "" || StatementPart(*s.StatementSuffix) {
		return nil
	}
	return []errs.Field{{
		Path:    "statementSuffix",
		Message: `must have a Latin letter, only Latin characters, none of < > \ ' " *, and no space at its beginning or end`,
	}}
}

// checkStatementLength checks that the StatementSuffix has at most room characters.
func (s *Spec) checkStatementLength(room int) error {
	if s.StatementSuffix == nil || len(*s.StatementSuffix) <= room {
		return nil
	}
	return ErrInvalid.WithFields(errs.Field{
		Path: "statementSuffix", Message: fmt.Sprintf("must have at most %d characters, which the account's prefix leaves (STRIPE_STATEMENT_PREFIX)", room),
	})
}
