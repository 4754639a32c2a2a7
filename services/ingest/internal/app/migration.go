package app

import (
	"context"
	"flag"
	"fmt"
	"io"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/promotion/queue"
	pkgsqs "urr.guru/pkg/sqs"
	"urr.guru/services/ingest/internal/dynamo"
)

// Migration returns the command that creates the missing DynamoDB table and SQS queues. With --warm
// it also prepares the table for a crowd.
func Migration() lifecycle.Command[Config] {
	const usage = "migrate " + plan.WarmUsage
	return lifecycle.Command[Config]{Usage: usage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		expected, err := plan.WarmFlags(flag.NewFlagSet("migrate", flag.ContinueOnError), args)
		if err != nil {
			return &lifecycle.Exit{Code: 2, Err: fmt.Errorf("%w\nusage: ingest %s", err, usage)}
		}
		db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
		if err != nil {
			return fmt.Errorf("dynamodb: %w", err)
		}
		if err := dynamo.Migrate(ctx, db, cfg.Dynamo); err != nil {
			return err
		}
		client, err := pkgsqs.Open(ctx, cfg.sqs())
		if err != nil {
			return fmt.Errorf("sqs: %w", err)
		}
		if err := queue.Ensure(ctx, client, cfg.Queue, cfg.Visibility, cfg.SQSEndpoint == ""); err != nil {
			return err
		}
		text := fmt.Sprintf("the table with the prefix %s and the queue %s are there", cfg.Dynamo.Prefix, cfg.Queue.Name)
		if expected.Any() {
			if text, err = pkgdynamo.Warm(ctx, db, cfg.Dynamo, plan.Opening{Kind: plan.Promotion, Expected: expected}); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(out, text)
		return err
	}}
}
