package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres/schema"
	"urr.guru/services/stats/internal/rebuild"
)

const (
	// swapLock is the key of an advisory lock. A transaction that counts holds it shared. One that
	// swaps the schemas holds it exclusively, so that no figure and no offset changes meanwhile.
	swapLock = 7_364_217_001
	// rebuildLock is the key of the lock that lets only one rebuild run at a time.
	rebuildLock = swapLock + 1

	shadowName = schema.Name + "_new"
	oldName    = schema.Name + "_old"

	// compareTimeout is the time limit of the comparison, during which live counting continues.
	compareTimeout = time.Hour
)

func (s *Store) lockShared(ctx context.Context, tx pgx.Tx) error {
	if s.shadow { // a rebuild writes to its shadow while it holds the lock exclusively
		return nil
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1)`, int64(swapLock)); err != nil {
		return fmt.Errorf("lock the figures: %w", err)
	}
	return nil
}

// Shadow is a second schema of figures, in which everything is counted anew while the first one is
// in use. Swap then replaces the first by it, in one transaction.
type Shadow struct {
	*Store // counts into the shadow

	live     *pgxpool.Pool
	lockConn *pgxpool.Conn // holds rebuildLock
}

var _ rebuild.Shadow = (*Shadow)(nil)

// ErrRebuilding means that a rebuild was begun while another one is running.
var ErrRebuilding = errors.New("another rebuild is running")

// NewShadow makes an empty shadow beside the live figures. It removes what an earlier rebuild has
// left if it died. The caller must close the shadow.
func NewShadow(ctx context.Context, cfg postgres.Config) (s *Shadow, err error) {
	s = &Shadow{}
	defer func() {
		if err != nil {
			s.Close(context.WithoutCancel(ctx))
		}
	}()
	if s.live, err = postgres.Open(ctx, cfg, "stats-rebuild", SearchPath()); err != nil {
		return s, err
	}
	if s.lockConn, err = s.live.Acquire(ctx); err != nil {
		return s, postgres.Err(err)
	}
	var acquired bool
	if err = s.lockConn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(rebuildLock)).Scan(&acquired); err != nil {
		return s, postgres.Err(err)
	}
	if !acquired {
		return s, ErrRebuilding
	}
	if err = s.drop(ctx, shadowName, oldName); err != nil {
		return s, err
	}
	if err = postgres.MigrateOnce(ctx, cfg, "stats-rebuild", schema.MigrationsOf(shadowName)...); err != nil {
		return s, err
	}
	pool, err := postgres.Open(ctx, cfg, "stats-rebuild", postgres.Setting("search_path", shadowName+",public"))
	if err == nil {
		s.Store = NewStore(pool)
		s.shadow = true
	}
	return s, err
}

func (s *Shadow) drop(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := s.live.Exec(ctx, `DROP SCHEMA IF EXISTS `+name+` CASCADE`); err != nil {
			return postgres.Err(fmt.Errorf("drop the schema %s: %w", name, err))
		}
	}
	return nil
}

// Close removes the shadow, or after a swap the old figures, and closes the connections. The next
// rebuild may begin when it returns.
func (s *Shadow) Close(ctx context.Context) {
	if s.Store != nil {
		s.pool.Close()
	}
	if s.lockConn != nil {
		if s.Store != nil {
			_ = s.drop(ctx, shadowName, oldName) // if this fails, the next rebuild drops them
		}
		// Without this the server would release the lock only when it notices the closed connection. If
		// this fails, it does so then.
		_, _ = s.lockConn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(rebuildLock))
		s.lockConn.Release()
	}
	if s.live != nil {
		s.live.Close()
	}
}

// LiveOffsets returns, by topic and partition, up to which offset the live figures are counted.
func (s *Shadow) LiveOffsets(ctx context.Context) (rebuild.Offsets, error) {
	return offsetsIn(ctx, s.live)
}

// Offsets returns up to which offset the shadow is counted.
func (s *Shadow) Offsets(ctx context.Context) (rebuild.Offsets, error) { return offsetsIn(ctx, s.pool) }

func offsetsIn(ctx context.Context, pool *pgxpool.Pool) (rebuild.Offsets, error) {
	rows, _ := pool.Query(ctx, `SELECT topic, partition, next_offset FROM consumer_offsets`)
	offsets := rebuild.Offsets{}
	var topic string
	var partition int32
	var next int64
	_, err := pgx.ForEachRow(rows, []any{&topic, &partition, &next}, func() error {
		if offsets[topic] == nil {
			offsets[topic] = map[int32]int64{}
		}
		offsets[topic][partition] = next
		return nil
	})
	return offsets, postgres.Err(err)
}

// Compare stops live counting only while it calls catchUp and takes a snapshot of all figures,
// which it then compares. It returns the number of rows, and at most max rows that differ.
func (s *Shadow) Compare(ctx context.Context, max int, catchUp func(context.Context) error) (rows int64, differences []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout) // instead of statement_timeout
	defer cancel()
	var snapshot pgx.Tx
	defer func() {
		if snapshot != nil {
			_ = snapshot.Rollback(context.WithoutCancel(ctx))
		}
	}()
	err = s.whileStopped(ctx, func(txCtx context.Context, _ pgx.Tx) error {
		if err := catchUp(txCtx); err != nil {
			return err
		}
		var err error
		if snapshot, err = s.live.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err != nil {
			return err
		}
		// The first statement that reads fixes the snapshot, with both schemas at equal offsets.
		_, err = snapshot.Exec(txCtx, `SET LOCAL statement_timeout = 0; SELECT count(*) FROM pg_catalog.pg_namespace`)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	anew := figuresOf(shadowName)
	if err = snapshot.QueryRow(ctx, `SELECT count(*) FROM (`+anew+`) AS anew`).Scan(&rows); err != nil {
		return 0, nil, postgres.Err(err)
	}
	diffRows, _ := snapshot.Query(ctx, `WITH live AS (`+figuresOf(schema.Name)+`), anew AS (`+anew+`)`+compareFigures, max) // CollectRows returns its error
	differences, err = pgx.CollectRows(diffRows, pgx.RowTo[string])
	return rows, differences, postgres.Err(err)
}

// figuresOf returns the query of all figures of a schema: totals, quarters, and those minutes that
// cannot have been deleted yet. Two columns tell the kinds of rows apart.
func figuresOf(schemaName string) string {
	return `
	SELECT event_id, '-infinity'::timestamptz AS since, first_at, figure, currency, amount, times FROM ` + schemaName + `.totals
	UNION ALL SELECT event_id, quarter, 'infinity', figure, currency, amount, times FROM ` + schemaName + `.quarters
	UNION ALL SELECT event_id, minute, '-infinity', figure, currency, amount, times FROM ` + schemaName + `.minutes WHERE minute >= now() - interval '90 days'`
}

// compareFigures lists the rows of live and anew that differ.
const compareFigures = `
SELECT format('%s %s %s %s %s: %s of %s, counted anew %s of %s', event_id, since, first_at, figure, currency, live.amount, live.times, anew.amount, anew.times)
FROM live FULL JOIN anew USING (event_id, since, first_at, figure, currency)
WHERE (live.amount, live.times) IS DISTINCT FROM (anew.amount, anew.times)
ORDER BY event_id, since, figure, currency LIMIT $1`

// Swap calls catchUp while live counting is stopped, and then replaces the live figures by the
// shadow. If either step fails, the live figures stay.
func (s *Shadow) Swap(ctx context.Context, catchUp func(context.Context) error) error {
	if _, err := inbox.Prune(ctx, s.pool, nil); err != nil {
		return err
	}
	return s.whileStopped(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := catchUp(ctx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			LOCK TABLE `+schema.Name+`.redriven_letters IN SHARE ROW EXCLUSIVE MODE;
			INSERT INTO `+shadowName+`.redriven_letters SELECT * FROM `+schema.Name+`.redriven_letters ON CONFLICT DO NOTHING;
			ALTER SCHEMA `+schema.Name+` RENAME TO `+oldName+`;
			ALTER SCHEMA `+shadowName+` RENAME TO `+schema.Name)
		return err
	})
}

// whileStopped runs fn in a transaction during which live counting is stopped.
func (s *Shadow) whileStopped(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return postgres.InTx(ctx, s.live, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(swapLock)); err != nil {
			return fmt.Errorf("lock the figures: %w", err)
		}
		return fn(ctx, tx)
	})
}

var _ figures.Store = (*Shadow)(nil)
