package toss

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"

	"urr.guru/services/payment/internal/payment"
)

// apiError is the body of an error answer. The code counts, never the HTTP status. The message is not
// read: it may contain what the buyer has typed.
type apiError struct {
	Code errorCode `json:"code"`
}

func (e *apiError) Error() string { return "toss answers " + string(e.Code) }

// errorCode is a code of an error; empty if what Toss has sent is no constant, such as a sentence.
type errorCode string

func (c *errorCode) UnmarshalText(text []byte) error {
	*c = ""
	if s := string(text); len(s) <= maxCode && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" {
		*c = errorCode(s)
	}
	return nil
}

// codeOf returns the code of an *apiError; empty for another error.
func codeOf(err error) string {
	if refusal, ok := errors.AsType[*apiError](err); ok {
		return string(refusal.Code)
	}
	return ""
}

// The calls and the kinds of codes in codes.csv, which describes the kinds.
const (
	confirmCall = "confirm"
	cancelCall  = "cancel"
	lookUpCall  = "look-up"

	refused     = "refused"
	tooMuch     = "too_much"
	trouble     = "trouble"
	unclear     = "unclear"
	notBegun    = "not_begun"
	notAdmitted = "not_admitted"
	absent      = "absent"
)

//go:embed codes.csv
var codesFile string

// kinds has the kinds of codes.csv, by call and code.
var kinds = func() map[[2]string]string {
	r := csv.NewReader(strings.NewReader(codesFile))
	r.Comment, r.FieldsPerRecord = '#', 5
	rows, err := r.ReadAll()
	if err != nil {
		panic(err) // the file is part of the program, and a test reads it
	}
	byCode := map[[2]string]string{}
	for _, row := range rows[1:] {
		byCode[[2]string{row[0], row[1]}] = row[2]
	}
	return byCode
}()

// kindOf returns the kind of a code with which Toss has answered a call. One that codes.csv does not
// list is unclear, unless it has the form of a refusal or of trouble.
func kindOf(call, code string) string {
	if kind, ok := kinds[[2]string{call, code}]; ok {
		return kind
	}
	begins := func(prefixes ...string) bool {
		for _, prefix := range prefixes {
			if strings.HasPrefix(code, prefix) {
				return true
			}
		}
		return false
	}
	switch {
	case call == confirmCall && begins("REJECT_", "EXCEED_MAX_"):
		return refused
	case begins("FAILED_", "UNKNOWN_", "FORBIDDEN_") || code == "COMMON_ERROR":
		return trouble
	default:
		return unclear
	}
}

// kept returns the error of a call that Toss has answered with a code, which it repeats under the
// call's key.
func kept(call, code string) error {
	return fmt.Errorf("toss: %w", &payment.KeptError{Code: code, Trouble: kindOf(call, code) == trouble})
}
