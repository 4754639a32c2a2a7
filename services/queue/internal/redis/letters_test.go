package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/redis"
)

// A dead letter keeps the time at which it was redriven first.
func TestRedrivenLetters(t *testing.T) {
	t.Parallel()
	client := redistest.Open(t)
	letters, topic := redis.NewRedrivenLetters(client), kafkatest.Name("topic")
	t.Cleanup(func() { client.Del(t.Context(), "queue:redriven:"+topic) })
	at, err := letters.Redriven(t.Context(), topic, []string{"0-1", "0-2"})
	require.NoError(t, err)
	require.Empty(t, at)
	require.NoError(t, client.HSet(t.Context(), "queue:redriven:"+topic, "0-1", 7).Err())
	require.NoError(t, letters.NoteRedriven(t.Context(), topic, []string{"0-2", "0-1"}))
	at, err = letters.Redriven(t.Context(), topic, []string{"0-1", "0-2", "0-3"})
	require.NoError(t, err)
	require.Len(t, at, 2)
	require.Equal(t, time.UnixMilli(7), at["0-1"])
	require.NotZero(t, at["0-2"])
}
