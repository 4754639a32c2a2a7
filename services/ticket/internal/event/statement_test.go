package event_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

func TestStatementPart(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"AUTUMN", "autumn 26", "9-22-19 10K", "A&B #1"} {
		require.True(t, event.StatementPart(s), s)
	}
	for _, s := range []string{
		"", "26", "가을", "É26", "A<", "A>", `A\`, "A'", `A"`, "A*", " A", "A ", "A\n", "A\x00",
	} {
		require.False(t, event.StatementPart(s), "%q", s)
	}
	require.True(t, event.StatementPrefix("SHOP"))
	for _, s := range []string{"S", "SHOPSHOPSHO", "12", "가게"} {
		require.False(t, event.StatementPrefix(s), s)
	}
}

// The prefix, an asterisk, a space and the suffix have at most 22 characters together.
func TestStatementRoom(t *testing.T) {
	t.Parallel()
	require.Equal(t, 13, event.StatementRoom("RUNCLUB"), "the example in Stripe's documentation")
	require.Equal(t, event.StatementRoom("TENLETTERS"), event.StatementRoom(""), "it fits whatever the prefix is")
}

func TestStatementLength(t *testing.T) {
	t.Parallel()
	s := &event.Service{StatementRoom: event.StatementRoom("RUNCLUB")}
	spec := assigned()
	spec.StatementSuffix = new(strings.Repeat("A", 14))
	_, err := s.Create(t.Context(), spec, nil)
	require.ErrorIs(t, err, event.ErrInvalid)
	require.Equal(t, []errs.Field{{
		Path: "statementSuffix", Message: "must have at most 13 characters, which the account's prefix leaves (STRIPE_STATEMENT_PREFIX)",
	}}, errs.From(err).Fields)
}
