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

const acceptFlag = "--accept-differences"

// Rebuild returns the subcommand `rebuild`, which counts all figures anew while the service runs.
func Rebuild() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: "rebuild [" + acceptFlag + "]", Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		if len(args) > 1 || len(args) == 1 && args[0] != acceptFlag {
			return errors.New("usage: " + name + " rebuild [" + acceptFlag + "]")
		}
		source, err := kafka.NewReplay(cfg.Kafka)
		if err != nil {
			return err
		}
		shadow, err := postgres.NewShadow(ctx, cfg.Postgres)
		if err != nil {
			return err
		}
		defer shadow.Close(context.WithoutCancel(ctx))
		r := &rebuild.Rebuild{
			Source: source, Shadow: shadow, Service: figures.NewService(shadow, inbox.Retention, time.Now),
			Accept: slices.Contains(args, acceptFlag), Out: out,
		}
		err = r.Run(ctx)
		if n := source.Refused(); n > 0 {
			fmt.Fprintf(out, "%d records were left out: the services that write the topics have not signed them, or a past key is missing in EVENT_PUBLIC_KEYS\n", n)
		}
		if errors.Is(err, rebuild.ErrDifferent) {
			return fmt.Errorf("%w: nothing was swapped; %s does", err, acceptFlag)
		}
		return err
	}}
}
