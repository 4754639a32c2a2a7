package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/postgres"
)

// ParkedKey is a key whose events wait for an operator, because the broker has permanently refused
// one of them.
type ParkedKey struct {
	Topic, Key string
	// EventID, Error and Type describe the event that was refused.
	EventID, Error, Type string
	At                   time.Time
	// Events is the number of waiting events of the key, including the refused one.
	Events int64
}

// ParkedKeys lists all parked keys, the oldest first.
func ParkedKeys(ctx context.Context, pool *pgxpool.Pool) ([]ParkedKey, error) {
	rows, err := pool.Query(ctx, `
		SELECT p.topic, p.key, p.event_id::text, p.error, coalesce(min(o.type) FILTER (WHERE o.event_id = p.event_id), ''), p.parked_at, count(o.id)
		FROM outbox_parked AS p LEFT JOIN outbox AS o ON o.topic = p.topic AND o.key = p.key
		GROUP BY p.topic, p.key, p.event_id, p.error, p.parked_at ORDER BY p.parked_at`)
	if err != nil {
		return nil, postgres.Err(err)
	}
	parked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ParkedKey])
	return parked, postgres.Err(err)
}

// Redrive makes the relay publish the events of a parked key again, in order. An empty key means
// all parked keys of the topic. A key refused again is parked again. It returns the number of keys.
func Redrive(ctx context.Context, pool *pgxpool.Pool, topic, key string) (int64, error) {
	tag, err := pool.Exec(ctx, `DELETE FROM outbox_parked WHERE topic = $1 AND $2 IN ('', key)`, topic, key)
	return tag.RowsAffected(), postgres.Err(err)
}

// Usage is the usage text of Command.
const Usage = "outbox [parked | redrive <topic> [<key>]]"

// ErrUsage means that the arguments of Command are not those in Usage.
var ErrUsage = errors.New("usage: " + Usage)

// Command runs `<service> outbox …` for operators: it lists the parked keys, or redrives one key or
// all keys of a topic.
func Command(ctx context.Context, pool *pgxpool.Pool, args []string, out io.Writer) error {
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "parked":
		return listParked(ctx, pool, out)
	case args[0] == "redrive" && (len(args) == 2 || len(args) == 3):
		key := ""
		if len(args) == 3 {
			key = args[2]
		}
		n, err := Redrive(ctx, pool, args[1], key)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%d keys are published again, each in its order\n", n)
		return err
	default:
		return ErrUsage
	}
}

func listParked(ctx context.Context, pool *pgxpool.Pool, out io.Writer) error {
	parked, err := ParkedKeys(ctx, pool)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tKEY\tEVENTS\tSINCE\tREFUSED\tTYPE\tERROR")
	for _, p := range parked {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", p.Topic, p.Key, p.Events, p.At.UTC().Format(time.RFC3339), p.EventID, p.Type, p.Error)
	}
	return w.Flush()
}
