package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/postgres"
)

// RedrivenLetters records, permanently, which dead letters of the service's consumer group were
// redriven. The inbox cannot record that, since it forgets old events.
type RedrivenLetters struct{ pool *pgxpool.Pool }

// NewRedrivenLetters makes RedrivenLetters that are stored through a pool.
func NewRedrivenLetters(pool *pgxpool.Pool) RedrivenLetters { return RedrivenLetters{pool} }

// OpenRedrivenLetters makes RedrivenLetters with a pool of its own, for a command; done closes it.
func OpenRedrivenLetters(ctx context.Context, cfg postgres.Config, name string, opts ...postgres.Option) (l RedrivenLetters, done func(), err error) {
	pool, err := postgres.Open(ctx, cfg, name, opts...)
	if err != nil {
		return RedrivenLetters{}, nil, err
	}
	return RedrivenLetters{pool}, pool.Close, nil
}

// Redriven returns when each letter was redriven; letters that never were are left out.
func (l RedrivenLetters) Redriven(ctx context.Context, topic string, letters []string) (map[string]time.Time, error) {
	rows, _ := l.pool.Query(ctx, `SELECT letter, redriven_at FROM redriven_letters WHERE topic = $1 AND letter = ANY ($2)`, topic, letters)
	redrivenAt := make(map[string]time.Time)
	var letter string
	var t time.Time
	_, err := pgx.ForEachRow(rows, []any{&letter, &t}, func() error {
		redrivenAt[letter] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("redriven letters of %s: %w", topic, postgres.Err(err))
	}
	return redrivenAt, nil
}

// NoteRedriven records that letters were redriven now. A recorded letter keeps its time.
func (l RedrivenLetters) NoteRedriven(ctx context.Context, topic string, letters []string) error {
	// The rows are inserted in a fixed order, so that two redrives at once cannot deadlock.
	_, err := l.pool.Exec(ctx, `
		INSERT INTO redriven_letters (topic, letter) SELECT DISTINCT $1::text, k FROM unnest($2::text[]) AS k ORDER BY k ON CONFLICT DO NOTHING`, topic, letters)
	if err != nil {
		return fmt.Errorf("note redriven letters of %s: %w", topic, postgres.Err(err))
	}
	return nil
}
