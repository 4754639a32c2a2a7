package app_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/app"
)

const key = config.Secret("0123456789abcdef0123456789abcdef")

// start runs the service on fresh tables until the returned function stops it.
func start(t *testing.T) (addr string, stop func() error) {
	t.Helper()
	tables, _ := dynamotest.Tables(t)
	cfg := &app.Config{
		Config:       lifecycle.Config{GRPCAddr: backendtest.FreeAddr(t), ShutdownTimeout: 2 * time.Minute},
		ServerConfig: rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": key}},
		Dynamo:       tables, TokenSecret: key,
	}
	log := slog.New(slog.DiscardHandler)
	for range 2 {
		if err := app.Migrate(t.Context(), cfg, log); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, log) }()
	return cfg.GRPCAddr, func() error { cancel(); return <-done }
}

// A visitor's whole way through the running service, watched by a gateway whose stream is open when the service stops.
func TestRun(t *testing.T) {
	t.Parallel()
	addr, stop := start(t)
	conn, err := rpc.Dial("gateway", "vwr", rpc.Peer{Addr: addr, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	visitors, operators := vwrv1.NewVwrServiceClient(conn), vwrv1.NewVwrAdminServiceClient(conn)

	activate := &vwrv1.ActivateRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: "demo", Batch: new(int64(10)), IntervalSeconds: new(int64(1)),
	}
	for {
		if _, err = operators.Activate(ctx, activate); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the service does not come up: %v", err)
		}
	}
	stream, err := visitors.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	visitor := &commonv1.Caller{AnonId: "visitor"}
	res, err := visitors.Assign(ctx, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{Caller: visitor, EventId: "demo"}}})
	if err != nil || res.GetResults()[0].GetAssigned().GetPosition() != 1 {
		t.Fatalf("assign: %v, %v", res, err)
	}
	for served := int64(0); served < 1; { // the advancer moves by itself
		msg, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range msg.GetCounters() {
			served = c.GetServing()
		}
	}
	a := res.GetResults()[0].GetAssigned()
	checked, err := visitors.Check(ctx, &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{
		{Caller: visitor, EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
	}})
	if err != nil || !checked.GetResults()[0].GetChecked().GetAdmitted() {
		t.Errorf("check: %v, %v", checked, err)
	}
	for claimed := int64(0); claimed < 1; { // who came counts
		st, err := operators.GetStatus(ctx, &vwrv1.GetStatusRequest{Caller: activate.GetCaller(), EventId: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		claimed = st.GetClaimed()
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("stopping took %v: the open stream held it up", took)
	}
}
