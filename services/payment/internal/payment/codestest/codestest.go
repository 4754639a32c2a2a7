// Package codestest writes down what becomes of calls that a provider answers with an error code.
package codestest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
)

// Table is a golden file: a line per code, with what becomes of a charge, a refund and a look-up.
type Table struct{ text strings.Builder }

// Add adds the line of a code.
func (b *Table) Add(code, charge, refund, lookUp string) {
	fmt.Fprintf(&b.text, "%-62s | %-22s | %-12s | %s\n", code, charge, refund, lookUp)
}

// Compare compares the table with the golden file at path, after it has written it if update is set.
func (b *Table) Compare(t *testing.T, path string, update bool) {
	t.Helper()
	if update {
		require.NoError(t, os.WriteFile(path, []byte(b.text.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, gocmp.Diff(string(want), b.text.String()))
}

// Charge describes the result of a charge.
func Charge(out payment.Outcome, err error) string {
	switch {
	case err != nil:
		return failed(err)
	case out.State == payment.Refused:
		return "refused"
	default:
		return fmt.Sprintf("state %d", out.State)
	}
}

// Refund describes the result of a refund.
func Refund(answer payment.RefundAnswer, err error) string {
	switch {
	case err != nil:
		return failed(err)
	case answer.State == payment.ProviderRefused:
		return "refused"
	case answer.State == payment.ProviderTooMuch:
		return "too much"
	default:
		return fmt.Sprintf("state %d", answer.State)
	}
}

// LookUp describes the result of a look-up.
func LookUp(out payment.Outcome, err error) string {
	switch {
	case err != nil:
		return failed(err)
	case out.State == payment.Absent:
		return "absent"
	default:
		return fmt.Sprintf("state %d", out.State)
	}
}

func failed(err error) string {
	var words []string
	for _, known := range []struct {
		err  error
		word string
	}{
		{payment.ErrNotSent, "not sent"}, {payment.ErrNotAdmitted, "not admitted"}, {payment.ErrChargeRejected, "rejected"},
	} {
		if errors.Is(err, known.err) {
			words = append(words, known.word)
		}
	}
	if kept, ok := errors.AsType[*payment.KeptError](err); ok && kept.Trouble {
		words = append(words, "kept trouble")
	} else if ok {
		words = append(words, "kept refusal")
	}
	return cmp.Or(strings.Join(words, ", "), "unknown")
}
