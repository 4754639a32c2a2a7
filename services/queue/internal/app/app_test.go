package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	"urr.guru/services/queue/internal/app"
)

const key = "0123456789abcdef0123456789abcdef"

func minimalEnv() map[string]string {
	return map[string]string{
		"QUEUE_ENTRY_TOKEN_SECRET": key, "QUEUE_TICKET_SECRET": key, "REDIS_ADDRS": "r:1", "KAFKA_BROKERS": "k:1", "TICKET_ADDR": "t:1", "TICKET_RPC_KEY": key,
		"RPC_ACCEPT": "gateway:" + key + ",room:" + key + ",vwr:" + key, "RPC_PLAIN": "development",
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  map[string]string
		want string // a part of the error's text; empty if the configuration is valid
	}{
		"least":                          {nil, ""},
		"no secret":                      {map[string]string{"QUEUE_ENTRY_TOKEN_SECRET": ""}, "QUEUE_ENTRY_TOKEN_SECRET"},
		"a short secret":                 {map[string]string{"QUEUE_ENTRY_TOKEN_SECRET": "short"}, "32"},
		"a short secret of tickets":      {map[string]string{"QUEUE_TICKET_SECRET": "short"}, "QUEUE_TICKET_SECRET"},
		"no ticket":                      {map[string]string{"TICKET_ADDR": ""}, "TICKET_ADDR"},
		"no key for ticket":              {map[string]string{"TICKET_RPC_KEY": ""}, "TICKET_RPC_KEY"},
		"SQS without a URL":              {map[string]string{"SQS_ENABLED": "true"}, "SQS_QUEUE_URL"},
		"SQS":                            {map[string]string{"SQS_ENABLED": "true", "SQS_QUEUE_URL": "http://sqs/admissions.fifo"}, ""},
		"a bad threshold":                {map[string]string{"QUEUE_THRESHOLD": "-1"}, "QUEUE_THRESHOLD"},
		"a cleanup that parks everybody": {map[string]string{"QUEUE_SEEN_TTL_SECONDS": "10"}, "QUEUE_SEEN_TTL_SECONDS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := minimalEnv()
			maps.Copy(env, c.set)
			_, err := config.LoadFrom[app.Config](t.Context(), env)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]string{"single": backendtest.Redis(t), "cluster": strings.Join(backendtest.RedisCluster(t), ",")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireServes(t, redis)
		})
	}
}

// requireServes starts the service on the Redis at these addresses, and stops it when ready.
func requireServes(t *testing.T, redis string) {
	t.Helper()
	env := minimalEnv()
	ops, prefix := backendtest.FreeAddr(t), kafkatest.Name("app")+"-"
	t.Cleanup(func() {
		kafkatest.Delete(t, prefix+events.Reservations, prefix+kafka.RedriveTopic(events.Group("queue")))
	})
	maps.Copy(env, map[string]string{
		"GRPC_ADDR": backendtest.FreeAddr(t), "OPS_ADDR": ops, "DRAIN": "10ms", "REDIS_ADDRS": redis,
		"KAFKA_BROKERS": strings.Join(backendtest.Kafka(t), ","), "KAFKA_GROUP_PREFIX": prefix, "KAFKA_TOPIC_PREFIX": prefix,
	})
	maps.Copy(env, kafkatest.Variables())
	cfg, err := config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, app.Migrate(t.Context(), cfg, log))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, log) }()
	testkit.Until(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ops+"/readyz", nil)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, "ready without ticket: it is asked when there is a line")
	cancel()
	require.NoError(t, testkit.Receive(t, done, "the end"))
}
