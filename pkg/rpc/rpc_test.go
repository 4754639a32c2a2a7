package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/telemetry"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

func TestCallReachesTheHandler(t *testing.T) {
	t.Parallel()
	q := serve(t, &fakeQueue{leave: func(ctx context.Context, r *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
		if telemetry.RequestID(ctx) != "req-7" {
			return nil, fmt.Errorf("request %q", telemetry.RequestID(ctx))
		}
		user, err := rpc.UserFrom(r)
		if err != nil || user != "bob" {
			return nil, fmt.Errorf("user %q: %w", user, err)
		}
		return &queuev1.LeaveResponse{}, nil
	}})
	_, err := q.Leave(telemetry.WithRequestID(t.Context(), "req-7"), &queuev1.LeaveRequest{
		EventId: "demo", Caller: &commonv1.Caller{UserId: "bob"},
	})
	require.NoError(t, err)
}

func TestErrorsCrossTheWire(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.7:5432: refused")
	for name, tc := range map[string]struct {
		sent error
		want *errs.Error
	}{
		"sentinel":      {errs.ErrSeatTaken.With("seatIds", "A-1-1"), errs.ErrSeatTaken},
		"wrapped":       {fmt.Errorf("hold: %w", errs.ErrSoldOut.Wrap(secret)), errs.ErrSoldOut},
		"with retry":    {errs.ErrOverloaded.WithRetry(2 * time.Second), errs.ErrOverloaded},
		"unknown error": {secret, errs.ErrInternal},
		"deadline":      {context.DeadlineExceeded, errs.ErrDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := serve(t, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
				return nil, tc.sent
			}})
			_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
			require.ErrorIs(t, err, tc.want)
			require.NotContains(t, err.Error(), "10.0.0.7", "causes are not sent")
			got, sent := errs.From(err), errs.From(tc.sent)
			require.Equal(t, sent.Kind, got.Kind)
			require.Equal(t, sent.RetryAfter, got.RetryAfter)
			require.Len(t, got.Metadata, len(sent.Metadata))
		})
	}
}

func TestPanicFailsOneCall(t *testing.T) {
	t.Parallel()
	var out logs
	q := serve(t, &fakeQueue{
		leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) { panic("nil map") },
		watch: func(grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error { panic("nil stream") },
	}, rpctest.WithLogger(out.logger()))
	_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
	require.ErrorIs(t, err, errs.ErrInternal)
	require.NotContains(t, err.Error(), "nil map")

	s, err := q.WatchLines(t.Context(), &queuev1.WatchLinesRequest{})
	require.NoError(t, err)
	_, err = s.Recv()
	require.ErrorIs(t, err, errs.ErrInternal)

	_, err = q.GetLoad(t.Context(), &queuev1.GetLoadRequest{EventId: "demo"})
	require.NoError(t, err, "the server still serves")
	lines := out.lines(t)
	require.Len(t, lines, 2)
	require.Equal(t, "ERROR", lines[0]["level"])
	require.Contains(t, lines[0]["error"], "nil map")
	require.Contains(t, lines[0]["error"], "rpc_test.go", "the stack is in the log")
}

func TestFailuresAreLoggedOnceAtTheirLevel(t *testing.T) {
	t.Parallel()
	var out logs
	reply := errs.ErrSoldOut.Wrap(errors.New("0 of 3 free"))
	q := serve(t, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) { return nil, reply }},
		rpctest.WithLogger(out.logger()))
	_, err := q.Leave(telemetry.WithRequestID(t.Context(), "req-1"), &queuev1.LeaveRequest{EventId: "demo"})
	require.Error(t, err)
	lines := out.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, "WARN", lines[0]["level"])
	require.Equal(t, "SOLD_OUT", lines[0]["reason"])
	require.Equal(t, "0 of 3 free", lines[0]["error"])
	require.Equal(t, "gateway", lines[0]["caller"])
	require.Equal(t, "/urr.queue.v1.QueueService/Leave", lines[0]["method"])
}

// Ten lines of a kind are written per second; the next line has the number of omitted ones.
func TestFailureLogIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out logs
		q := serve(t, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			return nil, errs.ErrSoldOut
		}}, rpctest.WithLogger(out.logger()))
		for range 300 {
			_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
			require.ErrorIs(t, err, errs.ErrSoldOut)
		}
		require.Len(t, out.lines(t), 10)
		<-time.After(time.Second)
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.ErrorIs(t, err, errs.ErrSoldOut)
		lines := out.lines(t)
		require.Len(t, lines, 11)
		require.EqualValues(t, 290, lines[10]["suppressed"])
	})
}

func TestRequestsAreValidated(t *testing.T) {
	t.Parallel()
	q := serve(t, &fakeQueue{check: func(context.Context, *queuev1.LineRequest) (*queuev1.LineResponse, error) {
		return nil, errors.New("must not be reached")
	}})
	_, err := q.Check(t.Context(), &queuev1.LineRequest{Items: []*queuev1.LineItem{{EventId: "demo"}, {EventId: "de:mo"}}})
	require.ErrorIs(t, err, errs.ErrInvalidRequest)
	fields := errs.From(err).Fields
	require.Len(t, fields, 1)
	require.Equal(t, "items[1].eventId", fields[0].Path, "named as in the API")
	require.NotEmpty(t, fields[0].Message)

	_, err = q.Check(t.Context(), &queuev1.LineRequest{})
	require.Equal(t, "items", errs.From(err).Fields[0].Path)
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remaining := make(chan time.Duration, 1)
		q := serve(t, &fakeQueue{leave: func(ctx context.Context, _ *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			d, ok := ctx.Deadline()
			if !ok {
				return nil, errors.New("no deadline")
			}
			remaining <- time.Until(d)
			return &queuev1.LeaveResponse{}, nil
		}})
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.NoError(t, err)
		require.Equal(t, rpc.CallTimeout, <-remaining)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = q.Leave(ctx, &queuev1.LeaveRequest{EventId: "demo"})
		require.NoError(t, err)
		require.Equal(t, time.Minute, <-remaining, "the deadline of the caller is used")
	})
}

func TestSlowCallEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := serve(t, &fakeQueue{leave: func(ctx context.Context, _ *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, rpctest.WithDial(rpc.WithTimeout(20*time.Millisecond)))
		start := time.Now()
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.ErrorIs(t, err, errs.ErrDeadline)
		require.Equal(t, 20*time.Millisecond, time.Since(start))
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail  *errs.Error
		calls int32 // calls of an idempotent method (Leave)
	}{
		"unavailable":           {errs.ErrUnavailable, 3},
		"unavailable until 5 s": {errs.ErrUnavailable.WithRetry(5 * time.Second), 1},
		"internal":              {errs.ErrInternal, 1},
		"exhausted":             {errs.ErrOverloaded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
				queuev1.RegisterQueueServiceServer(r, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
					n.Add(1)
					return nil, tc.fail
				}})
			}, rpctest.Named("queue"), rpctest.WithDial(rpc.WithTimeout(time.Minute)))
			_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
			require.ErrorIs(t, err, tc.fail)
			require.Equal(t, tc.calls, n.Load())
		})
	}
}

// Retries have a budget, so that an outage does not multiply the load.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	const calls = 100
	var n atomic.Int32
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		queuev1.RegisterQueueServiceServer(r, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			n.Add(1)
			return nil, errs.ErrUnavailable
		}})
	}, rpctest.Named("queue"))
	for range calls {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.ErrorIs(t, err, errs.ErrUnavailable)
	}
	require.Greater(t, n.Load(), int32(calls), "the first calls are retried")
	require.Less(t, n.Load(), int32(calls*120/100))
}

// A method that does not declare itself idempotent is never retried, since it may have taken
// effect.
func TestOnlyIdempotentMethodsAreRetried(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		registerVwrAdmin(r, func() error { n.Add(1); return errs.ErrUnavailable })
	}, rpctest.Named("vwr"))
	require.ErrorIs(t, advance(t, conn), errs.ErrUnavailable)
	require.EqualValues(t, 1, n.Load())
}

func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		var down atomic.Bool
		down.Store(true)
		q := serve(t, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			n.Add(1)
			if down.Load() {
				return nil, errs.ErrInternal
			}
			return nil, errs.ErrSoldOut // client errors do not count as failures
		}}, rpctest.WithDial(rpc.WithBreaker()))
		call := func() error {
			_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
			return err
		}
		for range 10 {
			require.ErrorIs(t, call(), errs.ErrInternal)
		}
		err := call()
		require.ErrorIs(t, err, errs.ErrUnavailable)
		pause := errs.From(err).RetryAfter
		require.Positive(t, pause)
		require.EqualValues(t, 10, n.Load(), "an open breaker makes no calls")

		down.Store(false)
		<-time.After(pause + time.Millisecond)
		require.ErrorIs(t, call(), errs.ErrSoldOut, "it lets a call through after the pause")
		require.ErrorIs(t, call(), errs.ErrSoldOut, "closed again")
	})
}

// A callee that fails a minority of the calls is not cut off.
func TestBreakerToleratesAFewFailures(t *testing.T) {
	t.Parallel()
	var n int
	q := serve(t, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
		if n++; n%3 == 0 {
			return nil, errs.ErrInternal
		}
		return &queuev1.LeaveResponse{}, nil
	}}, rpctest.WithDial(rpc.WithBreaker()))
	for range 60 {
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.NotErrorIs(t, err, errs.ErrUnavailable)
	}
	require.Equal(t, 60, n)
}

func TestStreams(t *testing.T) {
	t.Parallel()
	fail := make(chan error, 1)
	q := serve(t, &fakeQueue{watch: func(s grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error {
		if err := s.Send(&queuev1.WatchLinesResponse{Snapshot: true}); err != nil {
			return err
		}
		return <-fail
	}})
	for _, end := range []error{nil, errs.ErrLineRecovering.WithRetry(time.Second)} {
		s, err := q.WatchLines(t.Context(), &queuev1.WatchLinesRequest{})
		require.NoError(t, err)
		m, err := s.Recv()
		require.NoError(t, err)
		require.True(t, m.GetSnapshot())
		fail <- end
		_, err = s.Recv()
		if end == nil {
			require.ErrorIs(t, err, io.EOF)
			continue
		}
		require.ErrorIs(t, err, errs.ErrLineRecovering)
		require.Equal(t, time.Second, errs.From(err).RetryAfter)
	}
}
