package loop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/loop"
)

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var at []time.Duration
		err := loop.Every(ctx, 10*time.Second, func(context.Context) {
			at = append(at, time.Since(begun))
			switch len(at) {
			case 2:
				time.Sleep(14 * time.Second) // the call that was due meanwhile follows immediately
			case 4:
				cancel()
			}
		})
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 24 * time.Second, 30 * time.Second}, at)
	})
}

func TestTryGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		calls := 0
		err := loop.Try(ctx, time.Second, slog.New(slog.NewTextHandler(&out, nil)), "not done", func(context.Context) error {
			if calls++; calls == 3 {
				cancel() // the failure that follows must not be logged
			}
			if calls == 2 {
				return nil
			}
			return errors.New("away")
		})
		require.NoError(t, err)
		require.Equal(t, 3, calls)
		require.Equal(t, 1, strings.Count(out.String(), `level=WARN msg="not done" error=away`), out.String())
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		work.Go(func() { time.Sleep(time.Minute) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, loop.Wait(ctx, &work), context.DeadlineExceeded)
		require.NoError(t, loop.Wait(t.Context(), &work))
	})
}

func TestAfterWaitsBeforeFirstCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var at []time.Duration
		require.NoError(t, loop.Tick(ctx, 10*time.Second, func(context.Context) {
			if at = append(at, time.Since(begun)); len(at) == 2 {
				cancel()
			}
		}))
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second}, at)
	})
}

func TestEveryStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, loop.Every(ctx, time.Hour, func(context.Context) { t.Error("called") }))
}

// Failed attempts back off to 3 s; after a stream that received something the next attempt follows
// soon.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var pauses []time.Duration
		last := time.Now()
		err := loop.Follow(ctx, slog.New(slog.DiscardHandler), "test", func(context.Context) (bool, error) {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			if len(pauses) == 10 {
				cancel()
			}
			return len(pauses) == 8, io.ErrUnexpectedEOF
		})
		require.NoError(t, err)
		longest := []int{0, 100, 200, 400, 800, 1600, 3000, 3000, 100, 200} // ms
		for i, p := range pauses {
			limit := time.Duration(longest[i]) * time.Millisecond
			require.LessOrEqual(t, p, limit, "pause %d", i)
			require.GreaterOrEqual(t, p, limit/2, "pause %d", i)
		}
	})
}

// fakeStream is a stream of the messages that a test sends. It breaks when the context with which
// it was opened ends.
type fakeStream struct {
	ctx  context.Context //nolint:containedctx // as a gRPC stream's
	sent <-chan string
}

func (m fakeStream) Recv() (string, error) {
	select {
	case <-m.ctx.Done():
		return "", errors.New("transport is closing")
	case s, ok := <-m.sent:
		if !ok {
			return "", io.EOF
		}
		return s, nil
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		messages []string
		open     error
		received bool
		want     string
	}{
		"it cannot be opened":                  {open: refused, want: "refused"},
		"the peer ends it":                     {messages: []string{"a", "end"}, received: true, want: "ended by the other side"},
		"the peer hangs at once":               {want: "silent for too long"},
		"the peer hangs after a while":         {messages: []string{"a", "pause", "b", "pause", "c"}, received: true, want: "silent for too long"},
		"a message is not what it ought to be": {messages: []string{"a", "bad", "b"}, received: true, want: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sent := make(chan string, len(tc.messages))
				go func() {
					for _, m := range tc.messages {
						switch m {
						case "pause":
							time.Sleep(4 * time.Second)
						case "end":
							close(sent)
						default:
							sent <- m
						}
					}
				}()
				open := func(ctx context.Context) (loop.Stream[string], error) { return fakeStream{ctx, sent}, tc.open }
				received, err := loop.Read(t.Context(), 5*time.Second, open, func(_ context.Context, m string) error {
					if m == "bad" {
						return refused
					}
					return nil
				})
				require.ErrorContains(t, err, tc.want)
				require.Equal(t, tc.received, received)
			})
		})
	}
}

func TestWakeEndsTheSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		wake := make(chan struct{}, 1)
		require.True(t, loop.SleepOrWake(t.Context(), time.Minute, wake))
		require.Equal(t, time.Minute, time.Since(begun))

		wake <- struct{}{}
		require.True(t, loop.SleepOrWake(t.Context(), time.Minute, wake))
		require.Equal(t, time.Minute, time.Since(begun), "woken at once")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, loop.SleepOrWake(ctx, time.Minute, wake))
	})
}

// A pruner waits first, for less than its interval, and goes on after an error until its context ends.
func TestPruner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var calls []time.Duration
		run := loop.Pruner(time.Minute, slog.New(slog.DiscardHandler), "not pruned", func(context.Context) error {
			calls = append(calls, time.Since(began))
			if len(calls) == 3 {
				cancel()
			}
			return errors.New("away")
		})
		require.NoError(t, run(ctx))
		require.Len(t, calls, 3)
		require.Less(t, calls[0], time.Minute)
		require.Equal(t, time.Minute, calls[1]-calls[0])
		require.Equal(t, time.Minute, calls[2]-calls[1])

		began, calls = time.Now(), nil
		require.NoError(t, run(ctx), "the context has ended")
		require.Empty(t, calls)
		require.Zero(t, time.Since(began))
	})
}

func TestBatches(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		rows  []int64
		err   error
		total int64
	}{
		{[]int64{0}, nil, 0},
		{[]int64{9}, nil, 9},
		{[]int64{10, 10, 3}, nil, 23},
		{[]int64{10, 0}, nil, 10},
		{[]int64{10, 0}, broken, 10},
	} {
		calls := 0
		total, err := loop.Batches(t.Context(), 10, func(_ context.Context, size int32) (int64, error) {
			require.EqualValues(t, 10, size)
			calls++
			if calls == len(c.rows) {
				return c.rows[calls-1], c.err
			}
			return c.rows[calls-1], nil
		})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.total, total)
		require.Len(t, c.rows, calls)
	}
}
