package redis

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"urr.guru/services/queue/internal/line"
)

// dividedReads are the queued commands that look up waiters of a line with two sets: `entitled` has
// the users with an entitlement to the presale, `queue` all other waiters.
type dividedReads struct {
	queue, entitled              string // keys
	users                        []any
	inQueue, inEntitled, contact *redis.FloatSliceCmd
	ranks, others                []*redis.IntCmd // of the waiter's set; of the other set
}

func readDivided(ctx context.Context, pipe redis.Pipeliner, eventID string, queries []line.MemberQuery, indexes []int) *dividedReads {
	r := &dividedReads{queue: lineKey(eventID, "queue"), entitled: lineKey(eventID, "entitled"), users: usersOf(queries, indexes)}
	if len(r.users) == 0 {
		return r
	}
	r.inQueue = queueZMScore(ctx, pipe, r.queue, r.users)
	r.inEntitled = queueZMScore(ctx, pipe, r.entitled, r.users)
	r.contact = queueZMScore(ctx, pipe, lineKey(eventID, "seen"), r.users)
	return r
}

// readRanks reads the ranks of all users. The scores must have been read before.
func (r *dividedReads) readRanks(ctx context.Context, pipe redis.Pipeliner) error {
	if len(r.users) == 0 {
		return nil
	}
	r.ranks, r.others = make([]*redis.IntCmd, len(r.users)), make([]*redis.IntCmd, len(r.users))
	for k, user := range r.users {
		own, other := r.queue, r.entitled
		score, entitled := r.scoreOf(k)
		if entitled {
			own, other = other, own
		}
		r.ranks[k] = pipe.ZRank(ctx, own, user.(string))
		r.others[k] = pipe.ZCount(ctx, other, "-inf", "("+strconv.FormatInt(int64(score), 10))
	}
	return execPipeline(ctx, pipe)
}

// scoreOf returns the score of the k-th waiter, and whether it is in `entitled`. It is 0 if it is
// missing, or if an older replica has put the waiter into both sets: a script repairs that.
func (r *dividedReads) scoreOf(k int) (score float64, entitled bool) {
	inQueue, inEntitled := r.inQueue.Val()[k], r.inEntitled.Val()[k]
	if inQueue > 0 && inEntitled > 0 {
		return 0, false
	}
	return max(inQueue, inEntitled), inEntitled > 0
}

// state combines the replies about the k-th waiter like waiterReads.state.
func (r *dividedReads) state(k int) line.MemberState {
	rank, err := r.ranks[k].Result()
	score, entitled := r.scoreOf(k)
	contact := r.contact.Val()[k]
	if err != nil || score == 0 || contact == 0 {
		return line.MemberState{}
	}
	m := waiterState(rank, score, contact)
	m.Entitled, m.Others = entitled, r.others[k].Val()
	return m
}
