package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/lifecycle"
	"urr.guru/services/vwr/internal/dynamo"
)

const withoutPositionIndex = "--without-position-index"

// Migration returns the command that creates the DynamoDB tables that do not exist yet.
func Migration() lifecycle.Command[Config] {
	usage := "migrate [" + withoutPositionIndex + "]"
	return lifecycle.Command[Config]{Usage: usage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		index := dynamo.WithPositionIndex
		switch {
		case slices.Equal(args, []string{withoutPositionIndex}):
			index = dynamo.WithoutPositionIndex
		case len(args) > 0:
			return &lifecycle.Exit{Code: 2, Err: errors.New("usage: vwr " + usage)}
		}
		db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
		if err != nil {
			return fmt.Errorf("dynamodb: %w", err)
		}
		if err := dynamo.Migrate(ctx, db, cfg.Dynamo, index); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "the tables with the prefix %s are there\n", cfg.Dynamo.Prefix)
		return err
	}}
}
