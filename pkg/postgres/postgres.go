// Package postgres opens pools with the platform's session limits, runs transactions whose commit
// error is always returned, and migrates schemas. It defines which PostgreSQL errors mean
// "unavailable".
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/config"
)

// Limits of every session. While a transaction hangs, the whole server keeps old versions of rows,
// and relays of an outbox cannot publish newer events.
const (
	statementTimeout = 5 * time.Second
	idleInTxTimeout  = 5 * time.Second
	connectTimeout   = 3 * time.Second
	// lockTimeout is for migrations only: a migration that waits for a lock blocks all statements
	// that come after it, so it waits for a moment only, and tries again.
	lockTimeout = 300 * time.Millisecond
)

// Config selects the database and the number of connections.
type Config struct {
	// URL is the address of the database and the user: postgres://user:password@host:port/name, or
	// a keyword string as for libpq.
	URL config.Secret `env:"DATABASE_URL, required"`
	// URLFile is the file that URL was read from, if any. New connections use the user and password
	// that it then holds.
	URLFile string `env:"DATABASE_URL_FILE"`
	// MaxConns bounds the connections of a replica. A request that finds none free waits until its
	// own deadline.
	MaxConns int `env:"DATABASE_MAX_CONNS, default=16" min:"1" max:"1000"`
}

// Option is an option of Open.
type Option func(*pgxpool.Config)

// Setting sets a parameter of every session, such as enable_seqscan, unless the URL does.
func Setting(name, value string) Option {
	return func(pc *pgxpool.Config) { setDefault(pc.ConnConfig.RuntimeParams, name, value) }
}

// Indexed is an option for services whose statements all use an index (tested by
// postgrestest.RequireIndexes). It forbids sequential scans: a plan that was cached while a table
// was small would read the whole table, and would still be used while the table fills in the first
// minute of a sale, until autovacuum runs. JIT is off, since no statement runs long enough for
// compilation to pay off.
func Indexed() Option {
	return func(pc *pgxpool.Config) {
		Setting("enable_seqscan", "off")(pc)
		Setting("jit", "off")(pc)
	}
}

// Open makes a connection pool. name becomes the application_name of its sessions. It connects in
// the background: a database that is down does not fail the start but the readiness check
// (pool.Ping). An unusable URL is an error.
func Open(ctx context.Context, cfg Config, name string, opts ...Option) (*pgxpool.Pool, error) {
	pc, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	if cfg.MaxConns > 0 { // 0 in a Config that was not loaded from the environment
		pc.MaxConns = int32(min(cfg.MaxConns, 1000)) //nolint:gosec // bounded
	}
	pc.MaxConnLifetime = 30 * time.Minute
	pc.MaxConnLifetimeJitter = 5 * time.Minute
	pc.HealthCheckPeriod = 10 * time.Second
	if pc.ConnConfig.ConnectTimeout == 0 { // not set by the URL (connect_timeout)
		pc.ConnConfig.ConnectTimeout = connectTimeout
	}
	pc.PingTimeout = pingTimeout
	pc.ConnConfig.Tracer = newTracer(statementCallTimeout)
	pc.BeforeConnect = cfg.currentCredentials()
	setDefault(pc.ConnConfig.RuntimeParams, "application_name", name)
	setDefault(pc.ConnConfig.RuntimeParams, "statement_timeout", millisText(statementTimeout))
	setDefault(pc.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout", millisText(idleInTxTimeout))
	for _, opt := range opts {
		opt(pc)
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	return pool, nil
}

func (c *Config) Validate() error {
	if c.URL == "" { // required, or not used by this command
		return nil
	}
	_, err := c.parse()
	return err
}

// parse reads the URL. Its error does not contain the password.
func (c *Config) parse() (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return pc, nil
}

// currentCredentials returns a function that sets the current user and password on a new
// connection. While the content of the file is malformed, the last well-formed content is used.
func (c Config) currentCredentials() func(context.Context, *pgx.ConnConfig) error {
	url := config.LatestSecret("DATABASE_URL", c.URLFile, c.URL, func(s config.Secret) bool {
		_, err := pgx.ParseConfig(s.Reveal())
		return err == nil
	})
	return func(_ context.Context, conn *pgx.ConnConfig) error {
		now, err := pgx.ParseConfig(url().Reveal())
		if err != nil {
			return fmt.Errorf("DATABASE_URL: %w", err)
		}
		conn.User, conn.Password = now.User, now.Password
		return nil
	}
}

// setDefault sets a parameter unless the URL sets it: operators may raise a limit there.
func setDefault(params map[string]string, key, value string) {
	if _, ok := params[key]; !ok {
		params[key] = value
	}
}

func millisText(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
