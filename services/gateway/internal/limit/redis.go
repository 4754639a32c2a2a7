package limit

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/batch"
)

//go:embed gcra.lua
var gcraSource string

var gcra = redis.NewScript(gcraSource)

// check is a key to count a request of.
type check struct {
	scope scope
	key   string
	rule  Rule
	// maxExcess > 0 makes the check a meter: it refuses nothing, and remembers an excess of at most this.
	maxExcess time.Duration
}

func (c check) redisKey() string { return "limit:" + scopeNames[c.scope] + ":" + c.key }

// shared is GCRA in Redis, for all gateways. Checks that arrive within 150 µs are sent as one pipeline.
type shared struct {
	rdb redis.UniversalClient
	// calls returns the excess of each check, 0 within the allowance.
	calls *batch.Coalescer[[]check, []time.Duration]
}

func newShared(rdb redis.UniversalClient, timeout time.Duration) *shared {
	s := &shared{rdb: rdb}
	s.calls = batch.NewCoalescer(batch.Config{Max: 200, Delay: 150 * time.Microsecond, Inflight: 8, Timeout: timeout}, s.run)
	return s
}

func (s *shared) run(ctx context.Context, in [][]check) ([][]time.Duration, error) {
	all := slices.Concat(in...)
	cmds, err := s.pipeline(ctx, all, gcra.EvalSha)
	if unknown := noScriptIndexes(cmds); len(unknown) > 0 {
		// A new node lacks the script, which EVAL loads. Checks that other nodes of the cluster have run
		// must not be repeated.
		rest := make([]check, len(unknown))
		for k, i := range unknown {
			rest[k] = all[i]
		}
		var retried []*redis.Cmd
		retried, err = s.pipeline(ctx, rest, gcra.Eval)
		for k, i := range unknown {
			cmds[i] = retried[k]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rate limits: %w", err)
	}
	out := make([][]time.Duration, len(in))
	next := 0
	for i, checks := range in {
		out[i] = make([]time.Duration, len(checks))
		for k := range checks {
			us, err := cmds[next].Int64()
			if err != nil {
				return nil, fmt.Errorf("rate limits: %w", err)
			}
			out[i][k] = time.Duration(us) * time.Microsecond
			next++
		}
	}
	return out, nil
}

// noScriptIndexes returns the indexes of the commands whose server does not know the script.
func noScriptIndexes(cmds []*redis.Cmd) []int {
	var at []int
	for i, c := range cmds {
		if redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			at = append(at, i)
		}
	}
	return at
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (s *shared) pipeline(ctx context.Context, checks []check, run eval) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(checks))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, c := range checks {
			args := []any{c.rule.interval().Microseconds(), c.rule.tolerance().Microseconds()}
			if c.maxExcess > 0 {
				args = append(args, c.maxExcess.Microseconds())
			}
			cmds[i] = run(ctx, p, []string{c.redisKey()}, args...)
		}
		return nil
	})
	return cmds, err
}
