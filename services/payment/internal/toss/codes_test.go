package toss_test

import (
	"encoding/csv"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/payment/codestest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The golden file shows what becomes of each call that Toss answers with each code of codes.csv, and
// with codes that are not listed. No text of an answer gets into an error.
func TestCodes(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	charged := s.charged()
	var table codestest.Table
	for _, code := range append(listedCodes(t), "A_NEW_CODE", "EXCEED_MAX_NEW", "FAILED_NEW", "FORBIDDEN_NEW", "REJECT_NEW", "UNKNOWN_NEW", "a sentence") {
		s.testCode = ""
		p := s.pay()
		s.testCode = code
		out, chargeErr := s.client.Charge(t.Context(), p, payment.Outcome{})
		answer, refundErr := s.client.Refund(t.Context(), s.call(charged, 1))
		found, lookUpErr := s.client.Ask(t.Context(), p)
		_, reportErr := s.client.AskRefunds(t.Context(), charged)
		require.Error(t, reportErr, code)
		for _, err := range []error{chargeErr, refundErr, lookUpErr, reportErr} {
			if err != nil {
				require.NotContains(t, err.Error(), "sentence")
			}
		}
		require.Equal(t, out.State == payment.Refused, out.DeclineCode == code)
		require.Equal(t, answer.State != 0, answer.Code == code)
		table.Add(code, codestest.Charge(out, chargeErr), codestest.Refund(answer, refundErr), codestest.LookUp(found, lookUpErr))
	}
	table.Compare(t, "testdata/codes.txt", *update)
	s.testCode = ""
	require.Empty(t, s.report(charged).Refunds)
}

// listedCodes returns the codes of codes.csv, which must be well-formed.
func listedCodes(t *testing.T) []string {
	t.Helper()
	file, err := os.Open("codes.csv")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	r := csv.NewReader(file)
	r.Comment = '#'
	rows, err := r.ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"call", "code", "kind", "source", "date"}, rows[0])
	codes, seen := map[string]bool{}, map[string]bool{}
	for _, row := range rows[1:] {
		require.Contains(t, []string{"confirm", "cancel", "look-up"}, row[0])
		require.Contains(t, []string{"refused", "too_much", "trouble", "unclear", "not_begun", "not_admitted", "absent"}, row[2])
		require.NotEmpty(t, row[3])
		_, err := time.Parse(time.DateOnly, row[4])
		require.NoError(t, err)
		require.False(t, seen[row[0]+row[1]], "%s is there twice", row[1])
		codes[row[1]], seen[row[0]+row[1]] = true, true
	}
	return slices.Sorted(maps.Keys(codes))
}

// While a payment is being charged, it is looked up by the key that is charged.
func TestLookUpByKey(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{Rules: fake.Rules{ShowsUnapproved: true}})
	p := s.pay()
	require.Equal(t, payment.Authorized, s.ask(p).State)
	require.Equal(t, 1, s.toss.Count(fake.Lookups))
	s.choose(p, "pay") // in another tab, later
	p.Status = payment.Unknown
	require.Equal(t, payment.Authorized, s.ask(p).State, "not that of the other tab")
	require.Equal(t, 1, s.toss.Count(fake.KeyLookups))
	p.PaymentKey = s.charged().PaymentKey
	require.Equal(t, payment.Absent, s.ask(p).State, "the key of another order")
}
