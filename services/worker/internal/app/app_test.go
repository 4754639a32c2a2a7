package app_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	"urr.guru/services/worker/internal/app"
)

const (
	key        = config.Secret("0123456789abcdef0123456789abcdef")
	signingKey = config.Secret("draw-1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
)

// The running service decides about a request in the queue, and announces the result.
func TestRun(t *testing.T) {
	t.Parallel()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	queues, client := sqstest.Queue(t)
	brokers := kafkatest.Config(t)
	brokers.TopicPrefix = kafkatest.Name("worker") + "-"
	topic := brokers.TopicPrefix + events.Requests
	t.Cleanup(func() { kafkatest.Delete(t, topic, topic+kafka.DLQSuffix) })
	cfg := &app.Config{
		Config: lifecycle.Config{GRPCAddr: backendtest.FreeAddr(t), ShutdownTimeout: 2 * time.Minute},
		RPC:    rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": key, "ingest": key}},
		Dynamo: tables, Kafka: brokers, Queue: queue.Config{Name: sqstest.Name(queues)}, SQSEndpoint: queues.Endpoint,
		Receivers: 2, MaxAttempts: 5, RetryDelay: time.Second,
		Draw: fairdraw.KeyConfig{DrawSecret: key, DrawStatementKeys: signingKey}, BeaconURLs: []string{"http://127.0.0.1:1"}, DrawAfter: time.Second,
	}
	require.NoError(t, cfg.Validate())
	log := slog.New(slog.DiscardHandler)
	for range 2 {
		require.NoError(t, app.Migrate(t.Context(), cfg, log))
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, log) }()

	store := table.NewStore(dynamo.Leases{Client: db, Table: tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: time.Now})
	p := &promotion.Promotion{EventID: "demo", EventType: promotion.FirstCome, ClosesAt: time.Now().Add(time.Hour).UnixMilli()}
	r := promotion.NewRequest(p, ids.NewV7().String(), "ann", store.Millis())
	tx := store.Begin()
	tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: "demo", Total: 1, Remaining: 1}), table.Absent())
	tx.Create(0, r.Created())
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, queue.New(client, cfg.Queue).Send(t.Context(), []promotion.Outgoing{{Message: promotion.MessageOf(&r)}})[0])

	announced := kafkatest.Read(t, topic, 1)
	require.Equal(t, r.RequestID, string(announced[0].Key))
	require.Equal(t, events.RequestSucceeded, announced[0].Type)
	settled, _, err := store.Request(t.Context(), r.RequestID)
	require.NoError(t, err)
	require.Equal(t, promotion.Succeeded, settled.Status)
	testkit.Until(t, func() bool {
		depth, err := queue.New(client, cfg.Queue).Depth(t.Context())
		return err == nil && depth == 0
	}, "the message is deleted")
	for _, name := range []string{"requests", "dead"} {
		testkit.Until(t, func() bool {
			_, measured := metricstest.MetricSum(t, "urr_requests_queue_messages", map[string]string{"queue": name})
			return measured
		}, "the queue is measured: %s", name)
	}
	stop()
	require.NoError(t, <-done)
}
