package app

import (
	"context"
	"io"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/plan"
)

// Plan returns the command that prints how much of every service and store an opening sale needs.
func Plan() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: plan.Usage, Unconfigured: true, Run: func(_ context.Context, _ *Config, args []string, out io.Writer) error {
		if err := plan.Command(args, out); err != nil {
			return &lifecycle.Exit{Code: 2, Err: err}
		}
		return nil
	}}
}
