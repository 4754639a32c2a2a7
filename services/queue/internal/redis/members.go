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

// pollUnit is one second of a poll interval in the scores of the sorted set `seen`. A score is the
// time of the contact in ms, with the poll interval as its fraction; a double has exact 7 bits of
// fraction.
const pollUnit = 1.0 / 128

func (s *Store) LookUp(ctx context.Context, eventID string, queries []line.MemberQuery) ([]line.MemberState, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	return s.queries.Do(ctx, eventID, queries)
}

// readMembers looks visitors up in one pipeline, on one node of a cluster. One command reads the
// scores of all members of a set; only ranks need a command per member. For waiters of a line with
// two sets a second pipeline follows, since their ranks depend on the scores.
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

// execPipeline runs a pipeline in which a missing member is no error. Exec returns the error of the
// first failed command. If that is a missing member, execPipeline looks for the error of a later
// one.
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
	// The commands share the name, the key, the users and an argument array, to save allocations.
	r.ranks = make([]*redis.IntCmd, len(indexes))
	args, command, queue := make([]any, 0, 3*len(indexes)), any("zrank"), any(lineKey(eventID, "queue"))
	for k, user := range users {
		args = append(args, command, queue, user)
		r.ranks[k] = redis.NewIntCmd(ctx, args[3*k:3*k+3:3*k+3]...)
		_ = pipe.Process(ctx, r.ranks[k]) // only adds it to the pipeline
	}
	return r
}

// state combines the replies about the k-th waiter. If one is missing, the waiter is not found. A
// script must decide then, since the visitor may have moved between the reads of the pipeline.
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
	_ = pipe.Process(ctx, r.slots) // only adds it to the pipeline
	return r
}

// state combines the replies about the k-th holder. If one is missing, the holder is not found.
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
	_ = pipe.Process(ctx, cmd) // only adds it to the pipeline
	return cmd
}

// UpdateLastSeen writes the contacts of visitors, with one ZADD per sorted set. The option XX
// changes only existing members, so that a visitor who has left the set is not added again.
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
