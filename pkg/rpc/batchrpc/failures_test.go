package batchrpc_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"
)

// Faults of the server are logged once per call; faults of clients are not logged.
func TestFailures(t *testing.T) {
	t.Parallel()
	var failed batchrpc.Failures
	require.Equal(t, errs.ErrSoldOut.Reason, failed.Problem(errs.ErrSoldOut).GetReason())
	require.Nil(t, failed.Args())
	first := errs.ErrUnavailable.Wrap(errors.New("no route"))
	require.Equal(t, errs.ErrUnavailable.Reason, failed.Problem(first).GetReason())
	require.Equal(t, errs.ErrInternal.Reason, failed.Problem(errors.New("later")).GetReason())
	require.Equal(t, []any{"count", 2, "reason", errs.ErrUnavailable.Reason, "error", errs.From(first)}, failed.Args())
}
