package rpc

import (
	"context"
	"log/slog"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// itemFailures counts the failed items of one call, and logs those that are the server's fault.
type itemFailures struct {
	call string

	failed batchrpc.Failures
}

func (f *itemFailures) countFailure(err error) *commonv1.Problem {
	answered.WithLabelValues(f.call, errs.From(err).Reason).Inc()
	return f.failed.Problem(err)
}

func (f *itemFailures) log(ctx context.Context, log *slog.Logger) {
	if args := f.failed.Args(); args != nil {
		log.ErrorContext(ctx, "visitors not served", append(args, "call", f.call)...)
	}
}
