package app

import (
	"context"
	"flag"
	"fmt"
	"io"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/plan"
	"urr.guru/services/vwr/internal/dynamo"
)

// Migration returns the command that creates the missing DynamoDB tables. With --warm it also
// prepares them for a crowd.
func Migration() lifecycle.Command[Config] {
	const usage = "migrate [--without-position-index] " + plan.WarmUsage
	return lifecycle.Command[Config]{Usage: usage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
		withoutIndex := flags.Bool("without-position-index", false, "")
		expected, err := plan.WarmFlags(flags, args)
		if err != nil {
			return &lifecycle.Exit{Code: 2, Err: fmt.Errorf("%w\nusage: vwr %s", err, usage)}
		}
		db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
		if err != nil {
			return fmt.Errorf("dynamodb: %w", err)
		}
		if err := dynamo.Migrate(ctx, db, cfg.Dynamo, dynamo.PositionIndex(!*withoutIndex)); err != nil {
			return err
		}
		text := "the tables with the prefix " + cfg.Dynamo.Prefix + " are there"
		if expected.Any() {
			if text, err = pkgdynamo.Warm(ctx, db, cfg.Dynamo, plan.Opening{Kind: plan.Sale, Expected: expected}); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(out, text)
		return err
	}}
}
