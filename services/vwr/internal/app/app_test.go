package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/app"
)

const key = config.Secret("0123456789abcdef0123456789abcdef")

// start runs the service on new tables. The returned function stops it.
func start(t *testing.T) (addr string, stop func() error) {
	t.Helper()
	tables, _ := dynamotest.Tables(t)
	cfg := &app.Config{
		Config: lifecycle.Config{GRPCAddr: backendtest.FreeAddr(t), ShutdownTimeout: 2 * time.Minute},
		RPC:    rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": key, "room": key}},
		Dynamo: tables, TokenSecret: key, TicketSecret: key,
	}
	log := slog.New(slog.DiscardHandler)
	for range 2 {
		require.NoError(t, app.Migration().Run(t.Context(), cfg, nil, io.Discard))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, log) }()
	return cfg.GRPCAddr, func() error { cancel(); return <-done }
}

// The running service assigns a position and serves it. It can stop although a gateway's stream is
// open.
func TestRun(t *testing.T) {
	t.Parallel()
	addr, stop := start(t)
	conn, err := rpc.Dial("gateway", "vwr", rpc.Peer{Addr: addr, Key: key}, rpc.WithTimeout(time.Minute))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	visitors, operators := vwrv1.NewVwrServiceClient(conn), vwrv1.NewVwrAdminServiceClient(conn)

	activate := &vwrv1.ActivateRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: "demo", Batch: new(int64(10)), IntervalSeconds: new(int64(1)),
	}
	testkit.UntilNoError(t, func() error {
		_, err := operators.Activate(ctx, activate)
		return err
	}, "the service comes up")
	stream, err := visitors.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	require.NoError(t, err)
	visitor := &commonv1.Caller{AnonId: "visitor"}
	var a *vwrv1.Assigned
	testkit.UntilNoError(t, func() error { // DynamoDB may time out on a busy machine
		res, err := visitors.Assign(ctx, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{Caller: visitor, EventId: "demo"}}})
		if err != nil {
			return err
		}
		if a = res.GetResults()[0].GetAssigned(); a == nil {
			return fmt.Errorf("not assigned: %v", res)
		}
		return nil
	}, "a position")
	require.Equal(t, int64(1), a.GetPosition())
	for served := int64(0); served < 1; { // the advancer advances the counter
		msg, err := stream.Recv()
		require.NoError(t, err)
		for _, c := range msg.GetCounters() {
			served = c.GetServing()
		}
	}
	checked, err := visitors.Check(ctx, &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{
		{Caller: visitor, EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
	}})
	require.NoError(t, err)
	require.True(t, checked.GetResults()[0].GetChecked().GetAdmitted())
	testkit.Until(t, func() bool {
		st, err := operators.GetStatus(ctx, &vwrv1.GetStatusRequest{Caller: activate.GetCaller(), EventId: "demo"})
		return err == nil && st.GetClaimed() == 1
	}, "who came counts")
	require.NoError(t, stop(), "an open stream that held the end up would be cut, which is an error")
}

// Without the index a position costs one write. The option has no effect on an existing table.
func TestMigrationWithoutPositionIndex(t *testing.T) {
	t.Parallel()
	tables, db := dynamotest.Tables(t)
	cfg := &app.Config{Dynamo: tables}
	var out strings.Builder
	for _, args := range [][]string{{"--without-position-index"}, nil} {
		require.NoError(t, app.Migration().Run(t.Context(), cfg, args, &out))
		positions := tables.Table("vwr-positions")
		got, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &positions})
		require.NoError(t, err)
		require.Empty(t, got.Table.GlobalSecondaryIndexes)
	}
	require.Contains(t, out.String(), tables.Prefix)
	// DynamoDB Local does not support the call that warms the table.
	err := app.Migration().Run(t.Context(), cfg, strings.Fields("--warm --visitors 1000000 --within 60"), &out)
	require.ErrorContains(t, err, "warm table "+tables.Table("vwr-positions"))
	for _, args := range []string{"--fast", "--warm", "--visitors 5 --within 60"} {
		var exit *lifecycle.Exit
		require.ErrorAs(t, app.Migration().Run(t.Context(), cfg, strings.Fields(args), &out), &exit, args)
		require.Equal(t, 2, exit.Code)
	}
}
