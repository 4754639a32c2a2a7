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

// pollUnit is the fraction of a score of `seen` that stands for one second of advised poll; a millisecond time and 7 bits of poll are
// exact in a double.
const pollUnit = 1.0 / 128

// pending is the commands of one Look.
type pending struct {
	rank           *redis.IntCmd
	score, contact *redis.FloatCmd
	slot           *redis.StringCmd
}

// Look implements line.Sights. Concurrent calls on a line share pipelines.
func (s *Store) Look(ctx context.Context, eventID string, looks []line.Look) ([]line.Sight, error) {
	if len(looks) == 0 {
		return nil, nil
	}
	return s.looks.Do(ctx, eventID, looks)
}

// look is one pipeline, for one node of a cluster.
func (s *Store) look(ctx context.Context, eventID string, looks []line.Look) ([]line.Sight, error) {
	pipe := s.client.Pipeline()
	cmds := make([]pending, len(looks))
	for i, l := range looks {
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
	out := make([]line.Sight, len(looks))
	for i, c := range cmds {
		sight, err := c.read()
		if err != nil {
			return nil, pkgredis.Err(err)
		}
		out[i] = sight
	}
	return out, nil
}

// read puts the answers together. One that is missing makes it not found: the reads of a pipeline are not one step, so somebody may
// have been moved between them, and the script sorts it out.
func (c pending) read() (line.Sight, error) {
	score, err := c.score.Result()
	contact, err2 := c.contact.Result()
	var err3 error
	sight := line.Sight{Found: true}
	if c.slot != nil {
		var v string
		v, err3 = c.slot.Result()
		sight.SlotID, _, _ = strings.Cut(v, " ")
		sight.End, sight.Touched = int64(score), int64(contact)
	} else {
		sight.Ahead, err3 = c.rank.Result()
		sight.Score, sight.Touched = int64(score), int64(contact)
		sight.Poll = int64(math.Round((contact - math.Floor(contact)) / pollUnit))
	}
	for _, e := range []error{err, err2, err3} {
		if errors.Is(e, redis.Nil) {
			return line.Sight{}, nil
		}
		if e != nil {
			return line.Sight{}, e
		}
	}
	return sight, nil
}

// Touch implements line.Sights. XX: who was moved since is not brought back by it.
func (s *Store) Touch(ctx context.Context, eventID string, touches []line.Touch) error {
	pipe := s.client.Pipeline()
	for _, t := range touches {
		name, score := "seen", float64(t.At)+float64(t.Poll)*pollUnit
		if t.Holder {
			name, score = "active-seen", float64(t.At)
		}
		pipe.ZAddXX(ctx, key(eventID, name), redis.Z{Score: score, Member: t.UserID})
	}
	_, err := pipe.Exec(ctx)
	return pkgredis.Err(err)
}
