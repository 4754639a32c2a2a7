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

// pollUnit is the fraction of a score in `seen` that encodes one second of the poll interval. A
// time in ms with 7 bits of fraction is exact in a double.
const pollUnit = 1.0 / 128

// pending has the commands of one MemberQuery.
type pending struct {
	rank           *redis.IntCmd
	score, contact *redis.FloatCmd
	slot           *redis.StringCmd
}

// LookUp implements line.Members. Concurrent calls on a line share pipelines.
func (s *Store) LookUp(ctx context.Context, eventID string, queries []line.MemberQuery) ([]line.MemberState, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	return s.queries.Do(ctx, eventID, queries)
}

// readMembers runs one pipeline, on one node of a cluster.
func (s *Store) readMembers(ctx context.Context, eventID string, queries []line.MemberQuery) ([]line.MemberState, error) {
	pipe := s.client.Pipeline()
	cmds := make([]pending, len(queries))
	for i, l := range queries {
		if l.Holder {
			cmds[i] = pending{
				score:   pipe.ZScore(ctx, key(eventID, "active"), l.UserID),
				contact: pipe.ZScore(ctx, key(eventID, "active-seen"), l.UserID),
				slot:    pipe.HGet(ctx, key(eventID, "slot"), l.UserID),
			}
			continue
		}
		cmds[i] = pending{
			rank:    pipe.ZRank(ctx, key(eventID, "queue"), l.UserID),
			score:   pipe.ZScore(ctx, key(eventID, "queue"), l.UserID),
			contact: pipe.ZScore(ctx, key(eventID, "seen"), l.UserID),
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, pkgredis.Err(err)
	}
	out := make([]line.MemberState, len(queries))
	for i, c := range cmds {
		member, err := c.read()
		if err != nil {
			return nil, pkgredis.Err(err)
		}
		out[i] = member
	}
	return out, nil
}

// read combines the replies. If one is missing, the member is not found: a pipeline is not atomic,
// so the visitor may have moved between the reads, and the script decides.
func (c pending) read() (line.MemberState, error) {
	score, err := c.score.Result()
	contact, err2 := c.contact.Result()
	var err3 error
	member := line.MemberState{Found: true}
	if c.slot != nil {
		var v string
		v, err3 = c.slot.Result()
		member.SlotID, _, _ = strings.Cut(v, " ")
		member.End, member.LastSeen = int64(score), int64(contact)
	} else {
		member.Ahead, err3 = c.rank.Result()
		member.Score, member.LastSeen = int64(score), int64(contact)
		member.Poll = int64(math.Round((contact - math.Floor(contact)) / pollUnit))
	}
	for _, e := range []error{err, err2, err3} {
		if errors.Is(e, redis.Nil) {
			return line.MemberState{}, nil
		}
		if e != nil {
			return line.MemberState{}, e
		}
	}
	return member, nil
}

// UpdateLastSeen implements line.Members. With XX it does not restore a visitor who has moved
// since.
func (s *Store) UpdateLastSeen(ctx context.Context, eventID string, updates []line.LastSeenUpdate) error {
	pipe := s.client.Pipeline()
	for _, t := range updates {
		name, score := "seen", float64(t.At)+float64(t.Poll)*pollUnit
		if t.Holder {
			name, score = "active-seen", float64(t.At)
		}
		pipe.ZAddXX(ctx, key(eventID, name), redis.Z{Score: score, Member: t.UserID})
	}
	_, err := pipe.Exec(ctx)
	return pkgredis.Err(err)
}
