package app_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/app"
)

const (
	key        = config.Secret("0123456789abcdef0123456789abcdef")
	signingKey = config.Secret("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
)

// The running service handles a request. The subcommand migrate may run any number of times.
func TestRun(t *testing.T) {
	t.Parallel()
	tables, _ := dynamotest.Tables(t)
	queues, _ := sqstest.Queue(t)
	cfg := &app.Config{
		Config: lifecycle.Config{GRPCAddr: backendtest.FreeAddr(t), ShutdownTimeout: 2 * time.Minute},
		RPC:    rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": key, "reward": key, "vwr": key}},
		Dynamo: tables, Queue: queue.Config{Name: sqstest.Name(queues)}, Visibility: 30 * time.Second, SQSEndpoint: queues.Endpoint,
		SendAfter: 10 * time.Second, FailAfter: 10 * time.Minute, LostAfter: 5 * time.Minute,
		Draw: fairdraw.ReceiptConfig{DrawReceiptKeys: signingKey}, Worker: rpc.Peer{Addr: "127.0.0.1:1", Key: key},
	}
	require.NoError(t, cfg.Validate())
	log := slog.New(slog.DiscardHandler)
	for range 2 {
		require.NoError(t, app.Migration().Run(t.Context(), cfg, nil, io.Discard))
	}
	// DynamoDB Local does not support the call that warms the table.
	err := app.Migration().Run(t.Context(), cfg, strings.Fields("--warm --visitors 1000000 --within 60"), io.Discard)
	require.ErrorContains(t, err, "warm table "+tables.Table("AsyncEventTable"))
	for _, args := range []string{"--warm", "--warm --visitors 5", "--visitors 5 --within 60", "--fast", "now"} {
		exit := &lifecycle.Exit{}
		require.ErrorAs(t, app.Migration().Run(t.Context(), cfg, strings.Fields(args), io.Discard), &exit, args)
		require.Equal(t, 2, exit.Code)
		require.ErrorContains(t, exit.Err, "usage: ingest migrate [--warm --visitors N --within SECONDS]")
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, log) }()
	conn, err := rpc.Dial("gateway", "ingest", rpc.Peer{Addr: cfg.GRPCAddr, Key: key}, rpc.WithTimeout(time.Hour))
	require.NoError(t, err)
	defer conn.Close()
	create := &ingestv1.CreatePromotionRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}, IdempotencyKey: "k"}, Title: "Shoes", EventType: "FIRST_COME",
		CapacityTotal: 1, OpensAt: timestamppb.New(time.Now().Add(-time.Hour)), ClosesAt: timestamppb.New(time.Now().Add(time.Hour)),
	}
	var promotion *ingestv1.Promotion
	testkit.UntilNoError(t, func() (err error) {
		promotion, err = ingestv1.NewIngestAdminServiceClient(conn).CreatePromotion(t.Context(), create)
		return err
	}, "the service comes up")
	out, err := ingestv1.NewIngestServiceClient(conn).Apply(t.Context(), &ingestv1.ApplyRequest{Items: []*ingestv1.ApplyItem{
		{Caller: &commonv1.Caller{UserId: "ann"}, EventId: promotion.GetEventId()},
	}})
	require.NoError(t, err)
	require.NotEmpty(t, out.GetResults()[0].GetApplied().GetRequestId())
	testkit.Until(t, func() bool {
		at, _ := metricstest.MetricSum(t, "urr_requests_swept_timestamp_seconds", nil)
		return at > 0
	}, "the sweeper is watched")
	stop()
	require.NoError(t, <-done)

	cfg.FailAfter = time.Second
	require.ErrorContains(t, cfg.Validate(), "INGEST_FAIL_AFTER")
	cfg.FailAfter, cfg.Draw.DrawReceiptKeys = time.Hour, "short"
	require.ErrorContains(t, cfg.Validate(), "DRAW_RECEIPT_KEYS")
}
