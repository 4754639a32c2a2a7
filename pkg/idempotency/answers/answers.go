// Package answers stores the answers to requests with an Idempotency-Key for 24 hours, in the
// transaction of the request's effect. A repeated request gets the first answer. A request with
// another body under the same key fails with idempotency.ErrReused, and one that arrives while the
// first still runs with idempotency.ErrInProgress. Only answers of requests that had an effect are
// stored: a refused request may be repeated.
//
// A request of one transaction calls Claim, makes its effect, and calls Keep. A request of several
// transactions calls Claim and Start in the first, and Finish in the transaction that knows the
// outcome: its own, or one that cleans up after a process that died.
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

// KeyState is the state of an Idempotency-Key: the stored answer ("" for a new request), or the
// error with which the request must be refused.
type KeyState struct {
	Answer string
	Err    error
}

// answerStore implements the functions of this package. now is set by tests; nil means the time of
// the database's clock.
type answerStore struct{ now *time.Time }

// Claim locks the key until the end of tx. It returns the stored answer, or "" if the request must
// run. It never waits: while another transaction has the lock it fails with
// idempotency.ErrInProgress. A nil key always counts as new.
func Claim(ctx context.Context, tx pgx.Tx, key *idempotency.Key) (string, error) {
	return answerStore{}.Claim(ctx, tx, key)
}

func (s answerStore) Claim(ctx context.Context, tx pgx.Tx, key *idempotency.Key) (string, error) {
	states, err := s.ClaimAll(ctx, tx, []*idempotency.Key{key})
	if err != nil {
		return "", err
	}
	return states[0].Answer, states[0].Err
}

// ClaimAll is Claim for many requests at once. Each of the keys may be nil. The second of two equal
// keys gets idempotency.ErrInProgress.
func ClaimAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key) ([]KeyState, error) {
	return answerStore{}.ClaimAll(ctx, tx, keys)
}

func (s answerStore) ClaimAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key) ([]KeyState, error) {
	states := make([]KeyState, len(keys))
	byLock := make(map[int64]int, len(keys))
	var locks []int64
	var wanted keyColumns
	for i, k := range keys {
		if k == nil {
			continue
		}
		if _, twice := byLock[k.AdvisoryLock()]; twice {
			states[i].Err = idempotency.ErrInProgress
			continue
		}
		byLock[k.AdvisoryLock()] = i
		locks = append(locks, k.AdvisoryLock())
		wanted.add(k)
	}
	if len(locks) == 0 {
		return states, nil
	}
	// Both statements are sent at once. The second begins after the first has its locks, so it sees
	// what the previous holders of the locks committed.
	var b pgx.Batch
	b.Queue(`SELECT k, pg_try_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`, locks).Query(func(rows pgx.Rows) error {
		var lock int64
		var got bool
		_, err := pgx.ForEachRow(rows, []any{&lock, &got}, func() error {
			if !got {
				states[byLock[lock]].Err = idempotency.ErrInProgress
			}
			return nil
		})
		return err
	})
	b.Queue(findSQL, wanted.users, wanted.routes, wanted.keys, s.now).Query(func(rows pgx.Rows) error {
		var r keyRow
		_, err := pgx.ForEachRow(rows, r.scanTargets(), func() error {
			i := byLock[r.key.AdvisoryLock()]
			if states[i].Err == nil {
				states[i] = r.stateFor(keys[i])
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("claim %d idempotency keys: %w", len(locks), err)
	}
	return states, nil
}

// LATERAL and LIMIT make PostgreSQL look each key up by the primary key, even with a plan that was
// cached while the table was empty.
const findSQL = `
	SELECT n.user_id, n.route, n.key, i.fingerprint, i.answer, coalesce(i.running_until > coalesce($4::timestamptz, now()), false)
	FROM unnest($1::text[], $2::text[], $3::text[]) AS n (user_id, route, key)
	CROSS JOIN LATERAL (
	    SELECT k.fingerprint, k.answer, k.running_until, k.created_at FROM idempotency_keys AS k
	    WHERE k.user_id = n.user_id AND k.route = n.route AND k.key = n.key
	    LIMIT 1) AS i
	WHERE i.created_at > coalesce($4::timestamptz, now()) - interval '24 hours'`

// keyRow is the stored row of a key.
type keyRow struct {
	key         idempotency.Key
	fingerprint []byte
	answer      *string
	running     bool
}

func (r *keyRow) scanTargets() []any {
	return []any{&r.key.UserID, &r.key.Route, &r.key.Key, &r.fingerprint, &r.answer, &r.running}
}

// stateFor returns the state of the key for a request. A request whose process died may run again.
func (r *keyRow) stateFor(k *idempotency.Key) KeyState {
	switch {
	case !bytes.Equal(r.fingerprint, k.Fingerprint[:]):
		return KeyState{Err: idempotency.ErrReused}
	case r.answer != nil:
		return KeyState{Answer: *r.answer}
	case r.running:
		return KeyState{Err: idempotency.ErrInProgress}
	default:
		return KeyState{}
	}
}

// Keep stores the answer, which must not be empty, of a request whose key was claimed in tx.
func Keep(ctx context.Context, tx pgx.Tx, key *idempotency.Key, answer string) error {
	return answerStore{}.Keep(ctx, tx, key, answer)
}

func (s answerStore) Keep(ctx context.Context, tx pgx.Tx, key *idempotency.Key, answer string) error {
	return s.KeepAll(ctx, tx, []*idempotency.Key{key}, []string{answer})
}

// KeepAll stores the answers of many requests; nil keys are skipped.
func KeepAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key, answers []string) error {
	return answerStore{}.KeepAll(ctx, tx, keys, answers)
}

func (s answerStore) KeepAll(ctx context.Context, tx pgx.Tx, keys []*idempotency.Key, answers []string) error {
	var c keyColumns
	var kept []string
	for i, k := range keys {
		if k != nil {
			c.add(k)
			kept = append(kept, answers[i])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	// An existing row is older than 24 hours or belongs to a process that died, as Claim has
	// checked; it is replaced.
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys AS i (user_id, route, key, fingerprint, answer, created_at)
		SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bytea[]), unnest($5::text[]),
		       coalesce($6::timestamptz, now())
		ON CONFLICT (user_id, route, key) DO UPDATE
		SET fingerprint = excluded.fingerprint, answer = excluded.answer, subject = NULL, running_until = NULL,
		    created_at = excluded.created_at`,
		c.users, c.routes, c.keys, c.fingerprints, kept, s.now)
	if err != nil {
		return fmt.Errorf("keep %d answers: %w", len(kept), err)
	}
	return nil
}

// Start records, in the first transaction of a claimed request, that the request continues after
// this transaction. subject is the id of what the request works on. A request that is not finished
// within the given time counts as dead, and may run again.
func Start(ctx context.Context, tx postgres.Execer, key *idempotency.Key, subject uuid.UUID, within time.Duration) error {
	return answerStore{}.Start(ctx, tx, key, subject, within)
}

func (s answerStore) Start(ctx context.Context, tx postgres.Execer, key *idempotency.Key, subject uuid.UUID, within time.Duration) error {
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

// Finish stores the answer of the request that works on subject. With the answer "" it deletes the
// request's key, so that the request may be repeated. It does nothing if there is no such request.
func Finish(ctx context.Context, tx postgres.Execer, subject uuid.UUID, answer string) error {
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

// pruneBatch is the most rows that one statement deletes: to delete all keys of a busy day would
// take longer than the statement timeout.
const pruneBatch = 5000

// Prune deletes keys older than 24 hours. Any number of replicas may prune at once.
func Prune(ctx context.Context, pool *pgxpool.Pool) error { return answerStore{}.Prune(ctx, pool) }

func (s answerStore) Prune(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		tag, err := pool.Exec(ctx, `
			DELETE FROM idempotency_keys
			WHERE (user_id, route, key) IN (
			    SELECT user_id, route, key FROM idempotency_keys
			    WHERE created_at <= coalesce($2::timestamptz, now()) - interval '24 hours'
			    LIMIT $1
			    FOR UPDATE SKIP LOCKED)`, size, s.now)
		return tag.RowsAffected(), err
	})
	return postgres.Err(err)
}

// pruneEvery is the interval of Pruner.
const pruneEvery = 10 * time.Minute

// Pruner returns a worker that calls Prune every ten minutes until its context ends.
func Pruner(pool *pgxpool.Pool, log *slog.Logger) func(context.Context) error {
	return pruner(pool, pruneEvery, log)
}

func pruner(pool *pgxpool.Pool, every time.Duration, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(every, log, "idempotency keys not pruned", func(ctx context.Context) error { return Prune(ctx, pool) })
}

// keyColumns holds many keys as one array per column, for unnest.
type keyColumns struct {
	users, routes, keys []string
	fingerprints        [][]byte
}

func (c *keyColumns) add(k *idempotency.Key) {
	c.users, c.routes, c.keys = append(c.users, k.UserID), append(c.routes, k.Route), append(c.keys, k.Key)
	c.fingerprints = append(c.fingerprints, k.Fingerprint[:])
}
