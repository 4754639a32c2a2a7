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

// keyCheck is one check of a request: the key by which it is counted, and the key's allowance.
type keyCheck struct {
	scope scope
	key   string
	rule  RateRule
	// maxExcess > 0 makes the check a meter: it refuses nothing, and remembers by how much the allowance
	// is exceeded, at most maxExcess. Half of the excess is forgotten after each halfLife.
	maxExcess, halfLife time.Duration
}

func (c keyCheck) redisKey() string { return "limit:" + scopeNames[c.scope] + ":" + c.key }

// redisCounts counts by GCRA in Redis, for all gateways. Checks within 150 µs share one pipeline.
type redisCounts struct {
	rdb redis.UniversalClient
	// calls returns the excess of each check, 0 within the allowance.
	calls *batch.Coalescer[[]keyCheck, []time.Duration]
}

func newShared(rdb redis.UniversalClient, timeout time.Duration) *redisCounts {
	s := &redisCounts{rdb: rdb}
	s.calls = batch.NewCoalescer(batch.Config{Max: 200, Delay: 150 * time.Microsecond, Inflight: 8, Timeout: timeout}, s.runChecks)
	return s
}

func (s *redisCounts) runChecks(ctx context.Context, in [][]keyCheck) ([][]time.Duration, error) {
	all := slices.Concat(in...)
	cmds, err := s.runPipeline(ctx, all, gcra.EvalSha)
	if unknown := noScriptIndexes(cmds); len(unknown) > 0 {
		// A new node of the cluster does not know the script, which EVAL loads. Only the checks that
		// failed for this reason are repeated, since the others have counted already.
		rest := make([]keyCheck, len(unknown))
		for k, i := range unknown {
			rest[k] = all[i]
		}
		var retried []*redis.Cmd
		retried, err = s.runPipeline(ctx, rest, gcra.Eval)
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

type scriptCall func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (s *redisCounts) runPipeline(ctx context.Context, checks []keyCheck, run scriptCall) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(checks))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, c := range checks {
			args := []any{c.rule.interval().Microseconds(), c.rule.tolerance().Microseconds()}
			if c.maxExcess > 0 {
				args = append(args, c.maxExcess.Microseconds(), c.halfLife.Microseconds())
			}
			cmds[i] = run(ctx, p, []string{c.redisKey()}, args...)
		}
		return nil
	})
	return cmds, err
}
