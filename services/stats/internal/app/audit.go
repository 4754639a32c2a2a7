package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/kafka"
	"urr.guru/services/stats/internal/postgres"
)

// Audit returns the subcommand `audit verify`, which compares the stored acts of operators with the
// records that gateways have signed.
func Audit() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: "audit verify", Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		if !slices.Equal(args, []string{"verify"}) {
			return errors.New("usage: " + name + " audit verify")
		}
		source, err := kafka.NewReplay(cfg.Kafka)
		if err != nil {
			return err
		}
		pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, postgres.SearchPath())
		if err != nil {
			return err
		}
		defer pool.Close()
		return audit.Verify(ctx, source, postgres.NewStore(pool), cfg.AuditRetention, time.Now(), out)
	}}
}
