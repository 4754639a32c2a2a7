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
