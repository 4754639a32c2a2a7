package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	pkgredis "urr.guru/pkg/redis"
)

// RedrivenLetters stores, in a Redis hash per topic, which dead letters (events that could not be
// processed) operators have redriven. After a loss of Redis they can be redriven again, which does
// no harm: a reservation is applied to its slot only once.
type RedrivenLetters struct{ client redis.UniversalClient }

// NewRedrivenLetters makes a RedrivenLetters that uses the client.
func NewRedrivenLetters(client redis.UniversalClient) RedrivenLetters { return RedrivenLetters{client} }

func redrivenKey(topic string) string { return "queue:redriven:" + topic }

// Redriven returns when the dead letters were redriven, without those that never were.
func (l RedrivenLetters) Redriven(ctx context.Context, topic string, letters []string) (map[string]time.Time, error) {
	values, err := l.client.HMGet(ctx, redrivenKey(topic), letters...).Result()
	if err != nil {
		return nil, pkgredis.Err(fmt.Errorf("redriven letters of %s: %w", topic, err))
	}
	at := make(map[string]time.Time)
	for i, v := range values {
		if text, ok := v.(string); ok {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("redriven letter %s of %s: %w", letters[i], topic, err)
			}
			at[letters[i]] = time.UnixMilli(ms)
		}
	}
	return at, nil
}

// NoteRedriven records that dead letters were redriven now. A letter keeps its first time.
func (l RedrivenLetters) NoteRedriven(ctx context.Context, topic string, letters []string) error {
	now := time.Now().UnixMilli()
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, letter := range letters {
			p.HSetNX(ctx, redrivenKey(topic), letter, now)
		}
		return nil
	})
	if err != nil {
		return pkgredis.Err(fmt.Errorf("note redriven letters of %s: %w", topic, err))
	}
	return nil
}
