package rpc_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
)

func (k *tickets) register(s grpc.ServiceRegistrar) {
	ticketv1.RegisterEventServiceServer(s, k)
	ticketv1.RegisterEntitlementServiceServer(s, k)
}

func (k *tickets) HoldsEntitlement(_ context.Context, req *ticketv1.HoldsEntitlementRequest) (*ticketv1.HoldsEntitlementResponse, error) {
	res := &ticketv1.HoldsEntitlementResponse{}
	for _, u := range req.GetUsers() {
		res.Entitled = append(res.GetEntitled(), slices.ContainsFunc(append([]string{u.GetUserId(), u.GetEmail()}, u.GetClaims()...), func(s string) bool {
			return slices.Contains(k.entitled, s)
		}))
	}
	return res, nil
}

func (p patient) HoldEntitlement(ctx context.Context, eventID string, visitors []line.Visitor) ([]bool, error) {
	return p.Directory.HoldEntitlement(context.WithoutCancel(ctx), eventID, visitors)
}

// A user may be entitled by id, e-mail or claim. Answers tell this, and the opening time.
func TestPlacesInAPresale(t *testing.T) {
	f := setup(t)
	opens := f.clock().Add(time.Hour)
	f.tickets.entitled = []string{"inside", "a@example.com", "tier=gold"}
	f.tickets.setSale(&ticketv1.SaleStatus{
		EventId: f.event, Status: "PRESALE", PresaleOpensAt: timestamppb.New(f.clock().Add(-time.Hour)), OpensAt: timestamppb.New(opens),
		ClosesAt: timestamppb.New(opens.Add(time.Hour)),
	})
	f.open(1)
	require.Equal(t, "active", f.check(f.item("inside")).GetPlace().GetStatus())
	for _, c := range []struct {
		caller   *commonv1.Caller
		entitled bool
	}{
		{&commonv1.Caller{UserId: "nobody", Claims: []string{"tier=silver"}}, false},
		{&commonv1.Caller{UserId: "by-mail", Email: "a@example.com"}, true},
		{&commonv1.Caller{UserId: "by-claim", Claims: []string{"tier=silver", "tier=gold"}}, true},
	} {
		f.check(&queuev1.LineItem{EventId: f.event, Caller: c.caller})
		for name, ask := range map[string]func(*queuev1.LineItem) *queuev1.LineResult{"check": f.check, "status": f.status, "heartbeat": f.heartbeat} {
			p := ask(&queuev1.LineItem{EventId: f.event, Caller: c.caller}).GetPlace()
			require.Equal(t, []string{"queued", "PRESALE"}, []string{p.GetStatus(), p.GetSaleStatus()}, name)
			require.Equal(t, c.entitled, p.GetEntitled(), name)
			require.NotNil(t, p.Entitled)
			require.Equal(t, opens.UnixMilli(), p.GetGeneralOpensAt())
		}
	}
	overview, err := f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1}, []int64{overview.GetWaiting(), overview.GetWaitingGeneral()})
	require.Empty(t, overview.GetPauses())

	f.time.Set(opens)
	f.worker.Tick(f.ctx())
	p := f.status(f.item("by-mail")).GetPlace()
	require.Equal(t, []any{"ON_SALE", int64(2)}, []any{p.GetSaleStatus(), p.GetPosition()})
	require.Nil(t, p.Entitled)
	require.Nil(t, p.GeneralOpensAt)
}
