package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// gate blocks script calls until it is opened, and counts them.
type gate struct {
	goredis.Hook

	mu      sync.Mutex
	scripts int
	claims  int // the most claims in one script
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "evalsha") {
			g.mu.Lock()
			g.scripts++
			args := cmd.Args()
			g.claims = max(g.claims, (len(args)-3-args[2].(int)-16)/13)
			g.mu.Unlock()
			g.arrived <- struct{}{}
			<-g.open
		}
		return next(ctx, cmd)
	}
}

func (g *gate) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (g *gate) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// waiter is a context that calls waits when a caller begins to wait: then its request is queued.
type waiter struct {
	context.Context //nolint:containedctx // it is one

	waits func()
}

func (w waiter) Done() <-chan struct{} {
	w.waits()
	return w.Context.Done()
}

func TestConcurrentChecksShareScripts(t *testing.T) {
	t.Parallel()
	client, event := redistest.Open(t), redistest.Prefix(t)
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	st, err := store.Open(t.Context(), event, line.KnownState{})
	require.NoError(t, err)
	limit := int64(1000)
	_, err = store.ApplySettings(t.Context(), event, line.KnownState{}, line.Settings{Threshold: &limit}, st.Now)
	require.NoError(t, err)

	g := &gate{arrived: make(chan struct{}, 1000), open: make(chan struct{})}
	client.AddHook(g)
	const inFlight, more = 4, 96
	var wg, waiting sync.WaitGroup
	waiting.Add(inFlight + more)
	wrong := make([]string, inFlight+more)
	call := func(i int) {
		wg.Go(func() {
			ctx := waiter{t.Context(), sync.OnceFunc(waiting.Done)}
			users := []string{fmt.Sprintf("u-%d-a", i), fmt.Sprintf("u-%d-b", i)}
			s, out, err := store.Check(ctx, event, line.KnownState{}, []line.PlaceClaim{{UserID: users[0], Join: true}, {UserID: users[1]}})
			if err != nil || len(out) != 2 || out[0].State != line.Inside || out[1].State != line.NotInLine || !s.Exists() {
				wrong[i] = fmt.Sprintf("call %d: %v %v", i, out, err)
			}
		})
	}
	for i := range inFlight {
		call(i)
		<-g.arrived
	}
	for i := range more {
		call(inFlight + i)
	}
	waiting.Wait()
	close(g.open)
	wg.Wait()
	require.Empty(t, strings.Join(wrong, ""))
	n, err := client.ZCard(t.Context(), "{"+event+"}:active").Result()
	require.NoError(t, err)
	require.Equal(t, int64(inFlight+more), n)
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Less(t, g.scripts, inFlight+more/2, "those that waited went together")
	require.LessOrEqual(t, g.claims, 64, "but not so many that others wait for them")
	require.NoError(t, store.Close(t.Context()))
	_, _, err = store.Check(t.Context(), event, line.KnownState{}, []line.PlaceClaim{{UserID: "late"}})
	require.Error(t, err)
}
