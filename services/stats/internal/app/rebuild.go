package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/lifecycle"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/kafka"
	"urr.guru/services/stats/internal/postgres"
	"urr.guru/services/stats/internal/rebuild"
)

const accept = "--accept-differences"

// Rebuild returns the subcommand `rebuild`, with which operators count all figures anew beside live
// traffic.
func Rebuild() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: "rebuild [" + accept + "]", Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		if len(args) > 1 || len(args) == 1 && args[0] != accept {
			return errors.New("usage: " + name + " rebuild [" + accept + "]")
		}
		shadow, err := postgres.NewShadow(ctx, cfg.Postgres)
		if err != nil {
			return err
		}
		defer shadow.Close(context.WithoutCancel(ctx))
		r := &rebuild.Rebuild{
			Source: kafka.NewReplay(cfg.Kafka), Shadow: shadow, Service: figures.NewService(shadow, inbox.Retention, time.Now),
			Accept: slices.Contains(args, accept), Out: out,
		}
		err = r.Run(ctx)
		if errors.Is(err, rebuild.ErrDifferent) {
			return fmt.Errorf("%w: nothing was swapped; %s does", err, accept)
		}
		return err
	}}
}
