package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/rpc"
)

type sender struct{ sent []promotion.Request }

func (s *sender) Send(_ context.Context, r promotion.Request) error {
	s.sent = append(s.sent, r)
	return errors.New("the sweeper of ingest sends it")
}

// drawer answers as a draw in phase ROOT, whose result cannot be known yet, would.
type drawer struct{}

func (*drawer) Submit(_ context.Context, event, value, signature string) (promotion.Draw, error) {
	return promotion.Draw{
		EventID: event, Phase: promotion.DrawRoot, Beacon: &beacon.Round{Round: 7, Randomness: value, Signature: signature},
	}, nil
}

func (*drawer) Void(_ context.Context, event string) (promotion.Draw, error) {
	if event == "fixed" {
		return promotion.Draw{}, errs.ErrDrawFixed
	}
	return promotion.Draw{EventID: event, Phase: promotion.DrawVoid, VoidedAt: 5}, nil
}

func operator() *commonv1.Caller { return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}} }

// dead stores a failed request with its dead letter.
func dead(t *testing.T, store *dynamo.Store, user string) string {
	t.Helper()
	p := &promotion.Promotion{EventID: "demo", EventType: promotion.FirstCome, ClosesAt: time.Now().Add(time.Hour).UnixMilli()}
	r := promotion.NewRequest(p, ids.NewV7().String(), user, store.Millis())
	tx := store.Begin()
	tx.Put(0, table.LockItem(&promotion.Lock{EventID: "demo", UserID: user, RequestID: r.RequestID, EndsAt: r.EndsAt}), table.Absent())
	tx.Create(0, r.Created())
	require.NoError(t, tx.Commit(t.Context()))
	l := promotion.NewDeadLetter(r.RequestID, store.Millis())
	l.RequestID, l.EventID, l.Body, l.ErrorCode = r.RequestID, "demo", "body", "X"
	end := r.Failed(store.Millis(), promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "X"})
	require.NoError(t, store.PutDeadLetter(t.Context(), l, &end))
	return r.RequestID
}

func TestDeadLettersAndRedrive(t *testing.T) {
	t.Parallel()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	store := dynamo.New(db, tables, time.Now, func(int) {})
	queue := &sender{}
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		workerv1.RegisterWorkerAdminServiceServer(r, rpc.NewAdmin(store, queue, &drawer{}, slog.New(slog.DiscardHandler)))
	}, rpctest.WithDial(pkgrpc.WithTimeout(time.Hour)))
	client := workerv1.NewWorkerAdminServiceClient(conn)
	failed := map[string]bool{}
	var last string
	for i := range 5 {
		last = dead(t, store, fmt.Sprint("u", i))
		failed[last] = true
	}
	unreadable := promotion.NewDeadLetter("message", store.Millis())
	require.NoError(t, store.PutDeadLetter(t.Context(), unreadable, nil))

	list := func() (letters []*workerv1.DeadLetter) {
		t.Helper()
		in := &workerv1.ListDeadLettersRequest{Caller: operator(), Limit: 2}
		for {
			page, err := client.ListDeadLetters(t.Context(), in)
			require.NoError(t, err)
			letters = append(letters, page.GetItems()...)
			if in.Cursor = page.GetNextCursor(); in.Cursor == "" {
				return letters
			}
		}
	}
	require.Len(t, list(), 6)
	one, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Ids: []string{last}})
	require.NoError(t, err)
	require.Equal(t, []string{last}, one.GetRedriven())
	again, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Ids: []string{last}})
	require.NoError(t, err)
	require.Equal(t, []string{last}, again.GetRefused(), "it has begun anew already")
	all, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator()})
	require.NoError(t, err)
	require.Len(t, all.GetRedriven(), 4)
	require.False(t, all.GetMore())
	require.Len(t, queue.sent, 5)
	for _, l := range list() {
		require.Equal(t, failed[l.GetRequestId()], l.RedrivenAt != nil)
	}
	for id := range failed {
		r, _, err := store.Request(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, promotion.Queued, r.Status)
		require.Equal(t, int64(1), r.Gen)
	}
	_, err = client.ListDeadLetters(t.Context(), &workerv1.ListDeadLettersRequest{Caller: &commonv1.Caller{UserId: "ann"}})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: &commonv1.Caller{UserId: "ann"}})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
}

func TestOperatorsOfDraws(t *testing.T) {
	t.Parallel()
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		workerv1.RegisterWorkerAdminServiceServer(r, rpc.NewAdmin(nil, nil, &drawer{}, slog.New(slog.DiscardHandler)))
	})
	client := workerv1.NewWorkerAdminServiceClient(conn)
	value, signature := strings.Repeat("0f", 32), strings.Repeat("a", 96)
	state, err := client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: operator(), EventId: "demo", Value: value, Signature: signature})
	require.NoError(t, err)
	require.Equal(t, "ROOT", state.GetPhase())
	require.Equal(t, uint64(7), state.GetRound())
	state, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: operator(), EventId: "demo"})
	require.NoError(t, err)
	require.Equal(t, int64(5), state.GetVoidedAt())
	_, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: operator(), EventId: "fixed"})
	require.ErrorIs(t, errs.From(err), errs.ErrDrawFixed)

	user := &commonv1.Caller{UserId: "ann"}
	_, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: user, EventId: "demo"})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: user, EventId: "demo", Value: value, Signature: signature})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: operator(), EventId: "demo", Value: "x", Signature: signature})
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest)
}
