package limit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/batch"
)

//go:embed gcra.lua
var gcraSource string

var gcra = redis.NewScript(gcraSource)

const (
	// slots is the number of hash tags over which the keys are spread. On a cluster, only keys with
	// the same tag can share a command.
	slots = 16
	// maxKeys is the most keys of a command, since a command blocks Redis for about 2 µs per key.
	maxKeys = 100
)

// keyCheck is one check of a request: the key by which it is counted, and the rule for this key.
type keyCheck struct {
	scope scope
	key   string
	rule  RateRule
	// part is how many requests a process may allow that it has not yet reported to Redis.
	part int
	// maxExcess > 0 makes the check a meter. A meter refuses nothing. It remembers by how much the
	// rule is exceeded, at most maxExcess. Half of that is forgotten after each halfLife.
	maxExcess, halfLife time.Duration
}

func (c keyCheck) isMeter() bool { return c.maxExcess > 0 }

func (c keyCheck) slot() uint32 { return crc32.ChecksumIEEE([]byte(c.key)) % slots }

func (c keyCheck) redisKey() string {
	return "limit:{" + strconv.Itoa(int(c.slot())) + "}:" + scopeNames[c.scope] + ":" + c.key
}

// keyCount is what is sent to Redis for a key: how many requests this process has allowed already,
// and whether it asks for one more.
type keyCount struct {
	keyCheck

	allowed int
	asks    bool
}

// keyAnswer is the answer to a keyCount.
type keyAnswer struct {
	// excess is 0 if the request is allowed, else the time to wait, or the excess of a meter.
	excess time.Duration
	// next is 0 if one more request is allowed now, else the time until it is.
	next time.Duration
}

// redisCounts counts by GCRA in Redis, for all gateways. Requests within 150 µs share commands.
type redisCounts struct {
	rdb       redis.UniversalClient
	isCluster bool
	calls     *batch.Coalescer[[]keyCount, []keyAnswer]
}

func newShared(rdb redis.UniversalClient, timeout time.Duration) *redisCounts {
	s := &redisCounts{rdb: rdb}
	_, s.isCluster = rdb.(*redis.ClusterClient)
	s.calls = batch.NewCoalescer(batch.Config{Max: 200, Delay: 150 * time.Microsecond, Inflight: 8, Timeout: timeout}, s.countRequests)
	return s
}

func (s *redisCounts) countRequests(ctx context.Context, in [][]keyCount) ([][]keyAnswer, error) {
	answers, err := s.count(ctx, slices.Concat(in...))
	if err != nil {
		return nil, err
	}
	out := make([][]keyAnswer, len(in))
	for i, counts := range in {
		out[i], answers = answers[:len(counts)], answers[len(counts):]
	}
	return out, nil
}

// count sends all counts in one pipeline. After an error Redis may have counted some of them.
func (s *redisCounts) count(ctx context.Context, all []keyCount) ([]keyAnswer, error) {
	commands := s.commands(all)
	replies, err := s.runPipeline(ctx, all, commands, gcra.EvalSha)
	if unknown := noScriptIndexes(replies); len(unknown) > 0 {
		// A new node of the cluster does not know the script, which EVAL loads. Only the commands that
		// failed for this reason are repeated, since Redis has already counted the others.
		rest := make([][]int, len(unknown))
		for k, i := range unknown {
			rest[k] = commands[i]
		}
		var retried []*redis.Cmd
		retried, err = s.runPipeline(ctx, all, rest, gcra.Eval)
		for k, i := range unknown {
			replies[i] = retried[k]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rate limits: %w", err)
	}
	answers := make([]keyAnswer, len(all))
	for n, members := range commands {
		µs, err := replies[n].Int64Slice()
		if err == nil && len(µs) != 2*len(members) {
			err = errors.New("the reply is incomplete")
		}
		if err != nil {
			return nil, fmt.Errorf("rate limits: %w", err)
		}
		for k, i := range members {
			answers[i] = keyAnswer{excess: time.Duration(µs[2*k]) * time.Microsecond, next: time.Duration(µs[2*k+1]) * time.Microsecond}
		}
	}
	return answers, nil
}

// commands divides counts into commands, as lists of indexes: on a cluster all keys of a command
// must be in one slot.
func (s *redisCounts) commands(all []keyCount) (commands [][]int) {
	var bySlot [slots][]int
	for i, c := range all {
		slot := uint32(0)
		if s.isCluster {
			slot = c.slot()
		}
		bySlot[slot] = append(bySlot[slot], i)
	}
	for _, members := range bySlot {
		commands = slices.AppendSeq(commands, slices.Chunk(members, maxKeys))
	}
	return commands
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

func (s *redisCounts) runPipeline(ctx context.Context, all []keyCount, commands [][]int, run scriptCall) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(commands))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n, members := range commands {
			keys, args := make([]string, 0, len(members)), make([]any, 0, 6*len(members))
			for _, i := range members {
				c := all[i]
				asked := 0
				if c.asks {
					asked = 1
				}
				keys = append(keys, c.redisKey())
				args = append(args, c.rule.interval().Microseconds(), c.rule.tolerance().Microseconds(), c.allowed, asked,
					c.maxExcess.Microseconds(), c.halfLife.Microseconds())
			}
			cmds[n] = run(ctx, p, keys, args...)
		}
		return nil
	})
	return cmds, err
}
