// Package answers keeps what requests with an Idempotency-Key were answered, for 24 hours, in the
// transaction that has their effect: a repetition gets the first answer, another body under the
// same key idempotency.ErrReused, one that comes while the first still runs
// idempotency.ErrInProgress. Only requests that had an effect are remembered; one that was refused
// changed nothing and may be tried again.
//
// A request that is one transaction: Claim, its effect, Keep. One that takes several: Claim and
// Start in the first; Finish in whichever transaction knows the end, as the request's own or that
// of whoever cleans up behind a process that died.
package answers

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the table idempotency_keys.
var Migrations = postgres.MigrationSet{Name: "idempotency", FS: files}

// Prior is what is known of a request's key: what it was answered ("" when it is new), or why it
// must not run.
type Prior struct {
	Answer string
	Err    error
}

// store is what the functions of this package work by. Its time is the database's clock, unless a
// test has set it.
type store struct{ now *time.Time }

// Claim takes the key's lock until the end of tx and returns what was answered before, "" for a
// request that is to run. It never waits: what somebody else has claimed is running. A nil key is
// always new.
func Claim(ctx context.Context, tx pgx.Tx, key *idempotency.Key) (string, error) {
	return store{}.Claim(ctx, tx, key)
}

// Claim implements the function of this name, as do the following.
func (s store) Claim(ctx context.Context, tx pgx.Tx, key *idempotency.Key) (string, error) {
	priors, err := s.ClaimAll(ctx, tx, []*idempotency.Key{key})
	if err != nil {
		return "", err
	}
	return priors[0].Answer, priors[0].Err
}

// ClaimAll is Claim for many requests, each by itself; keys may be nil. Of a key that is there
// twice the second one is running.
func ClaimAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key) ([]Prior, error) {
	return store{}.ClaimAll(ctx, tx, keys)
}

func (s store) ClaimAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key) ([]Prior, error) {
	priors := make([]Prior, len(keys))
	byLock := make(map[int64]int, len(keys))
	var locks []int64
	var asked columns
	for i, k := range keys {
		if k == nil {
			continue
		}
		if _, twice := byLock[k.Lock()]; twice {
			priors[i].Err = idempotency.ErrInProgress
			continue
		}
		byLock[k.Lock()] = i
		locks = append(locks, k.Lock())
		asked.add(k)
	}
	if len(locks) == 0 {
		return priors, nil
	}
	// Two statements sent at once: the second one still begins after the first has its locks, and
	// sees what whoever had them before has committed.
	var b pgx.Batch
	b.Queue(`SELECT k, pg_try_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`, locks).Query(func(rows pgx.Rows) error {
		var lock int64
		var got bool
		_, err := pgx.ForEachRow(rows, []any{&lock, &got}, func() error {
			if !got {
				priors[byLock[lock]].Err = idempotency.ErrInProgress
			}
			return nil
		})
		return err
	})
	b.Queue(find, asked.users, asked.routes, asked.keys, s.now).Query(func(rows pgx.Rows) error {
		var r row
		_, err := pgx.ForEachRow(rows, r.fields(), func() error {
			i := byLock[r.key.Lock()]
			if priors[i].Err == nil {
				priors[i] = r.prior(keys[i])
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("claim %d idempotency keys: %w", len(locks), err)
	}
	return priors, nil
}

// LATERAL and LIMIT: each key by the primary key, also by a plan that was cached while the table
// was empty.
const find = `
	SELECT n.user_id, n.route, n.key, i.fingerprint, i.answer, coalesce(i.running_until > coalesce($4::timestamptz, now()), false)
	FROM unnest($1::text[], $2::text[], $3::text[]) AS n (user_id, route, key)
	CROSS JOIN LATERAL (
	    SELECT k.fingerprint, k.answer, k.running_until, k.created_at FROM idempotency_keys AS k
	    WHERE k.user_id = n.user_id AND k.route = n.route AND k.key = n.key
	    LIMIT 1) AS i
	WHERE i.created_at > coalesce($4::timestamptz, now()) - interval '24 hours'`

// row is what the table has of a key.
type row struct {
	key         idempotency.Key
	fingerprint []byte
	answer      *string
	running     bool
}

func (r *row) fields() []any {
	return []any{&r.key.UserID, &r.key.Route, &r.key.Key, &r.fingerprint, &r.answer, &r.running}
}

// prior is what the row means for a request; one whose process died may be run again.
func (r *row) prior(k *idempotency.Key) Prior {
	switch {
	case !bytes.Equal(r.fingerprint, k.Fingerprint[:]):
		return Prior{Err: idempotency.ErrReused}
	case r.answer != nil:
		return Prior{Answer: *r.answer}
	case r.running:
		return Prior{Err: idempotency.ErrInProgress}
	default:
		return Prior{}
	}
}

// Keep remembers the answer of a request that tx has claimed. It must not be empty.
func Keep(ctx context.Context, tx pgx.Tx, key *idempotency.Key, answer string) error {
	return store{}.Keep(ctx, tx, key, answer)
}

func (s store) Keep(ctx context.Context, tx pgx.Tx, key *idempotency.Key, answer string) error {
	return s.KeepAll(ctx, tx, []*idempotency.Key{key}, []string{answer})
}

// KeepAll remembers the answers of many requests; those whose key is nil are passed over.
func KeepAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key, answers []string) error {
	return store{}.KeepAll(ctx, tx, keys, answers)
}

func (s store) KeepAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key, answers []string) error {
	var c columns
	var given []string
	for i, k := range keys {
		if k != nil {
			c.add(k)
			given = append(given, answers[i])
		}
	}
	if len(given) == 0 {
		return nil
	}
	// What is still there after its 24 hours, or of a process that died, gives way: Claim has seen
	// to that.
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys AS i (user_id, route, key, fingerprint, answer, created_at)
		SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bytea[]), unnest($5::text[]),
		       coalesce($6::timestamptz, now())
		ON CONFLICT (user_id, route, key) DO UPDATE
		SET fingerprint = excluded.fingerprint, answer = excluded.answer, subject = NULL, running_until = NULL,
		    created_at = excluded.created_at`,
		c.users, c.routes, c.keys, c.fingerprints, given, s.now)
	if err != nil {
		return fmt.Errorf("keep %d answers: %w", len(given), err)
	}
	return nil
}

// Start notes, at the end of the first transaction of a request that tx has claimed, that it runs
// on: it works on subject, and has died when it is not finished within the given time.
func Start(ctx context.Context, tx pgx.Tx, key *idempotency.Key, subject uuid.UUID, within time.Duration) error {
	return store{}.Start(ctx, tx, key, subject, within)
}

func (s store) Start(ctx context.Context, tx pgx.Tx, key *idempotency.Key, subject uuid.UUID, within time.Duration) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys AS i (user_id, route, key, fingerprint, subject, running_until, created_at)
		VALUES ($1, $2, $3, $4, $5, coalesce($7::timestamptz, now()) + make_interval(secs => $6), coalesce($7::timestamptz, now()))
		ON CONFLICT (user_id, route, key) DO UPDATE
		SET fingerprint = excluded.fingerprint, answer = NULL, subject = excluded.subject, running_until = excluded.running_until,
		    created_at = excluded.created_at`,
		key.UserID, key.Route, key.Key, key.Fingerprint[:], subject, within.Seconds(), s.now)
	if err != nil {
		return fmt.Errorf("start a request on %s: %w", subject, err)
	}
	return nil
}

// Finish gives the request that runs on subject its answer, or lets it go ("") so that it may be
// repeated. There may be none.
func Finish(ctx context.Context, tx pgx.Tx, subject uuid.UUID, answer string) error {
	end := `UPDATE idempotency_keys SET answer = $2 WHERE subject = $1 AND answer IS NULL`
	args := []any{subject, answer}
	if answer == "" {
		end, args = `DELETE FROM idempotency_keys WHERE subject = $1 AND answer IS NULL`, args[:1]
	}
	if _, err := tx.Exec(ctx, end, args...); err != nil {
		return fmt.Errorf("finish the request on %s: %w", subject, err)
	}
	return nil
}

// pruneBatch bounds one statement of Prune: what a busy day leaves would not be deleted within the
// statement timeout.
const pruneBatch = 5000

// Prune forgets what is older than 24 hours. Any number of replicas may do so.
func Prune(ctx context.Context, pool *pgxpool.Pool) error { return store{}.Prune(ctx, pool) }

func (s store) Prune(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		tag, err := pool.Exec(ctx, `
			DELETE FROM idempotency_keys
			WHERE (user_id, route, key) IN (
			    SELECT user_id, route, key FROM idempotency_keys
			    WHERE created_at <= coalesce($2::timestamptz, now()) - interval '24 hours'
			    LIMIT $1
			    FOR UPDATE SKIP LOCKED)`, pruneBatch, s.now)
		if err != nil || tag.RowsAffected() < pruneBatch {
			return postgres.Err(err)
		}
	}
}

// pruneEvery is the interval of Pruner.
const pruneEvery = 10 * time.Minute

// Pruner returns a worker that prunes every ten minutes until its context ends.
func Pruner(pool *pgxpool.Pool, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, pruneEvery, func(ctx context.Context) {
			if err := Prune(ctx, pool); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "idempotency keys not pruned", "error", err)
			}
		})
	}
}

// columns are keys as unnest takes them.
type columns struct {
	users, routes, keys []string
	fingerprints        [][]byte
}

func (c *columns) add(k *idempotency.Key) {
	c.users, c.routes, c.keys = append(c.users, k.UserID), append(c.routes, k.Route), append(c.keys, k.Key)
	c.fingerprints = append(c.fingerprints, k.Fingerprint[:])
}
