package redis

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/redis/go-redis/v9"

	pkgredis "urr.guru/pkg/redis"
	"urr.guru/services/queue/internal/line"
)

// pollUnit is one second of a poll interval in a score of the sorted set `seen`: the score is the time
// of the contact in ms, with the poll interval as its fraction. 7 bits of fraction are exact in a
// double.
const pollUnit = 1.0 / 128

func (s *Store) LookUp(ctx context.Context, eventID string, queries []line.MemberQuery) ([]line.MemberState, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	return s.queries.Do(ctx, eventID, queries)
}

// readMembers looks visitors up in one pipeline, on one node of a cluster. One command reads the scores
// of all members of a set; only ranks need a command per member. Waiters of a line with two sets take a
// second pipeline, since their ranks depend on the scores.
func (s *Store) readMembers(ctx context.Context, eventID string, queries []line.MemberQuery) ([]line.MemberState, error) {
	var waiters, waitersOfTwoSets, holders []int
	for i, q := range queries {
		switch {
		case q.Holder:
			holders = append(holders, i)
		case q.TwoSets:
			waitersOfTwoSets = append(waitersOfTwoSets, i)
		default:
			waiters = append(waiters, i)
		}
	}
	pipe := s.client.Pipeline()
	waiting := readWaiters(ctx, pipe, eventID, queries, waiters)
	divided := readDivided(ctx, pipe, eventID, queries, waitersOfTwoSets)
	holding := readHolders(ctx, pipe, eventID, queries, holders)
	if err := execPipeline(ctx, pipe); err != nil {
		return nil, pkgredis.Err(err)
	}
	if err := divided.readRanks(ctx, s.client.Pipeline()); err != nil {
		return nil, pkgredis.Err(err)
	}
	out := make([]line.MemberState, len(queries))
	for k, i := range waiters {
		out[i] = waiting.state(k)
	}
	for k, i := range waitersOfTwoSets {
		out[i] = divided.state(k)
	}
	for k, i := range holders {
		out[i] = holding.state(k)
	}
	return out, nil
}

// execPipeline runs a pipeline in which missing members are no error. Exec returns the error of the
// first command that failed. If that is a missing member, execPipeline looks for a real error behind
// it.
func execPipeline(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// waiterReads are the queued commands that look up waiters. The score of a missing member is 0.
type waiterReads struct {
	ranks            []*redis.IntCmd
	scores, contacts *redis.FloatSliceCmd
}

func readWaiters(ctx context.Context, pipe redis.Pipeliner, eventID string, queries []line.MemberQuery, indexes []int) (r waiterReads) {
	if len(indexes) == 0 {
		return r
	}
	users := usersOf(queries, indexes)
	r.scores = queueZMScore(ctx, pipe, lineKey(eventID, "queue"), users)
	r.contacts = queueZMScore(ctx, pipe, lineKey(eventID, "seen"), users)
	// To save allocations, the commands share the name, the key, the users and an argument array.
	r.ranks = make([]*redis.IntCmd, len(indexes))
	args, command, queue := make([]any, 0, 3*len(indexes)), any("zrank"), any(lineKey(eventID, "queue"))
	for k, user := range users {
		args = append(args, command, queue, user)
		r.ranks[k] = redis.NewIntCmd(ctx, args[3*k:3*k+3:3*k+3]...)
		_ = pipe.Process(ctx, r.ranks[k]) // only queued
	}
	return r
}

// state combines the replies about the k-th waiter. If one is missing, the waiter counts as not found:
// a pipeline is not atomic, so the visitor may have moved between the reads, and a script must decide.
func (r waiterReads) state(k int) line.MemberState {
	rank, err := r.ranks[k].Result()
	score, contact := r.scores.Val()[k], r.contacts.Val()[k]
	if err != nil || score == 0 || contact == 0 {
		return line.MemberState{}
	}
	return waiterState(rank, score, contact)
}

func waiterState(rank int64, score, contact float64) line.MemberState {
	return line.MemberState{
		Found: true, Ahead: rank, Score: int64(score), LastSeen: int64(contact),
		Poll: int64(math.Round((contact - math.Floor(contact)) / pollUnit)),
	}
}

// holderReads are the queued commands that look up slot holders.
type holderReads struct {
	ends, contacts *redis.FloatSliceCmd
	slots          *redis.SliceCmd
}

func readHolders(ctx context.Context, pipe redis.Pipeliner, eventID string, queries []line.MemberQuery, indexes []int) (r holderReads) {
	if len(indexes) == 0 {
		return r
	}
	users := usersOf(queries, indexes)
	r.ends = queueZMScore(ctx, pipe, lineKey(eventID, "active"), users)
	r.contacts = queueZMScore(ctx, pipe, lineKey(eventID, "active-seen"), users)
	r.slots = redis.NewSliceCmd(ctx, append([]any{"hmget", lineKey(eventID, "slot")}, users...)...)
	_ = pipe.Process(ctx, r.slots) // only queued
	return r
}

// state combines the replies about the k-th slot holder. If one is missing, the holder is not found.
func (r holderReads) state(k int) line.MemberState {
	end, contact := r.ends.Val()[k], r.contacts.Val()[k]
	slot, found := r.slots.Val()[k].(string)
	if end == 0 || contact == 0 || !found {
		return line.MemberState{}
	}
	id, _, _ := strings.Cut(slot, " ")
	return line.MemberState{Found: true, SlotID: id, End: int64(end), LastSeen: int64(contact)}
}

// usersOf returns the users of the queries at the given indexes, as arguments of commands.
func usersOf(queries []line.MemberQuery, indexes []int) []any {
	users := make([]any, len(indexes))
	for k, i := range indexes {
		users[k] = queries[i].UserID
	}
	return users
}

func queueZMScore(ctx context.Context, pipe redis.Pipeliner, key string, users []any) *redis.FloatSliceCmd {
	cmd := redis.NewFloatSliceCmd(ctx, append([]any{"zmscore", key}, users...)...)
	_ = pipe.Process(ctx, cmd) // only queued
	return cmd
}

// UpdateLastSeen writes the contacts of visitors, with one ZADD per sorted set. The option XX of
// ZADD changes only members that exist, so a visitor who has moved since is not added again.
func (s *Store) UpdateLastSeen(ctx context.Context, eventID string, updates []line.LastSeenUpdate) error {
	var waiters, holders []redis.Z
	for _, t := range updates {
		if t.Holder {
			holders = append(holders, redis.Z{Score: float64(t.At), Member: t.UserID})
		} else {
			waiters = append(waiters, redis.Z{Score: float64(t.At) + float64(t.Poll)*pollUnit, Member: t.UserID})
		}
	}
	pipe := s.client.Pipeline()
	if len(waiters) > 0 {
		pipe.ZAddXX(ctx, lineKey(eventID, "seen"), waiters...)
	}
	if len(holders) > 0 {
		pipe.ZAddXX(ctx, lineKey(eventID, "active-seen"), holders...)
	}
	_, err := pipe.Exec(ctx)
	return pkgredis.Err(err)
}
