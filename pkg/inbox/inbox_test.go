package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func TestClaimOnce(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, inbox.Migrations)
	claim := func(group string, end error) (fresh bool, err error) {
		err = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			fresh, err = inbox.Claim(ctx, tx, "event-1", group)
			return errors.Join(err, end)
		})
		return fresh, err
	}
	boom := errors.New("the effect failed")
	_, err := claim("a", boom)
	require.ErrorIs(t, err, boom)
	fresh, err := claim("a", nil)
	require.NoError(t, err)
	require.True(t, fresh, "a rolled back claim does not count")
	fresh, err = claim("a", nil)
	require.NoError(t, err)
	require.False(t, fresh)
	fresh, err = claim("b", nil)
	require.NoError(t, err)
	require.True(t, fresh, "groups are independent")
}

// The second claim waits for the end of the first, so that an effect in progress is never repeated.
func TestClaimConcurrently(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, inbox.Migrations)
	results := make(chan bool, 8)
	for range cap(results) {
		go func() {
			fresh := false
			_ = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
				fresh, err = inbox.Claim(ctx, tx, "event-1", "a")
				return err
			})
			results <- fresh
		}()
	}
	won := 0
	for range cap(results) {
		if <-results {
			won++
		}
	}
	require.Equal(t, 1, won)
}

func TestClaimAll(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, inbox.Migrations)
	claim := func(keys ...string) (fresh map[string]bool) {
		require.NoError(t, postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
			fresh, err = inbox.ClaimAll(ctx, tx, keys, "a")
			return err
		}))
		return fresh
	}
	require.Equal(t, map[string]bool{"1": true, "2": true}, claim("2", "1", "2"))
	require.Equal(t, map[string]bool{"3": true}, claim("1", "2", "3"))
	require.Empty(t, claim("1"))
}

// A letter keeps the time at which it was redriven first, also when two redrives note it at once.
func TestRedrivenLetters(t *testing.T) {
	t.Parallel()
	letters := inbox.NewRedrivenLetters(postgrestest.New(t, inbox.Migrations))
	at, err := letters.Redriven(t.Context(), "payment-events", []string{"0-1", "0-2"})
	require.NoError(t, err)
	require.Empty(t, at)
	noted := make(chan error, 8)
	for range cap(noted) {
		go func() { noted <- letters.NoteRedriven(t.Context(), "payment-events", []string{"0-2", "0-1", "0-2"}) }()
	}
	for range cap(noted) {
		require.NoError(t, <-noted)
	}
	first, err := letters.Redriven(t.Context(), "payment-events", []string{"0-1", "0-2", "0-3"})
	require.NoError(t, err)
	require.Len(t, first, 2)
	require.NoError(t, letters.NoteRedriven(t.Context(), "payment-events", []string{"0-3", "0-1"}))
	at, err = letters.Redriven(t.Context(), "payment-events", []string{"0-1", "0-2"})
	require.NoError(t, err)
	require.Equal(t, first, at)
	at, err = letters.Redriven(t.Context(), "reservation-events", []string{"0-1"})
	require.NoError(t, err)
	require.Empty(t, at)
}
