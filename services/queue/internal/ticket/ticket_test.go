package ticket_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/ticket"
)

// fakeEvents is a fake ticket service that always returns the same sale statuses.
type fakeEvents struct {
	ticketv1.UnimplementedEventServiceServer

	answer *ticketv1.GetSaleStatusResponse
}

func (o *fakeEvents) GetSaleStatus(context.Context, *ticketv1.GetSaleStatusRequest) (*ticketv1.GetSaleStatusResponse, error) {
	if o.answer == nil {
		return nil, errs.ErrUnavailable
	}
	return o.answer, nil
}

func serve(t *testing.T, register func(grpc.ServiceRegistrar), opts ...ticket.Option) *ticket.Directory {
	t.Helper()
	conn := rpctest.Serve(t, register, rpctest.As("queue"), rpctest.WithDial(pkgrpc.WithTimeout(time.Minute)))
	return ticket.New(conn, conn, conn, append(opts, ticket.WithAskTimeout(time.Hour))...)
}

func TestSalesAreToldWithTheirAge(t *testing.T) {
	t.Parallel()
	opens := time.UnixMilli(1_800_000_000_000)
	d := serve(t, func(s grpc.ServiceRegistrar) {
		ticketv1.RegisterEventServiceServer(s, &fakeEvents{answer: &ticketv1.GetSaleStatusResponse{MeasuredAgoMs: 400, Sales: []*ticketv1.SaleStatus{{
			EventId: "e", Status: "SOLD_OUT", OpensAt: timestamppb.New(opens), ClosesAt: timestamppb.New(opens.Add(time.Hour)), MeasuredAgoMs: 3000,
			SettingsVersion: 7,
		}, {
			EventId: "p", Status: "PRESALE", OpensAt: timestamppb.New(opens), ClosesAt: timestamppb.New(opens.Add(time.Hour)),
			PresaleOpensAt: timestamppb.New(opens.Add(-time.Hour)),
		}}}})
	})
	found, missing, err := d.Sales(t.Context(), []string{"e", "p", "none"})
	require.NoError(t, err)
	require.Equal(t, 400*time.Millisecond, missing)
	sale := line.Sale{Status: line.SoldOut, OpensAt: opens.UnixMilli(), ClosesAt: opens.Add(time.Hour).UnixMilli()}
	presale := sale
	presale.Status, presale.PresaleOpensAt = line.Presale, opens.Add(-time.Hour).UnixMilli()
	require.Equal(t, map[string]line.SaleReport{"e": {Age: 3 * time.Second, SettingsVersion: 7, Sale: sale}, "p": {Sale: presale}}, found)
}

// fakeEntitlements is a fake ticket service. A user is entitled whose e-mail equals the id.
type fakeEntitlements struct {
	ticketv1.UnimplementedEntitlementServiceServer

	arrived func(context.Context) // called by each call; nil for none

	mu    sync.Mutex
	calls []int // the number of users in each call
}

func (o *fakeEntitlements) HoldsEntitlement(ctx context.Context, req *ticketv1.HoldsEntitlementRequest) (*ticketv1.HoldsEntitlementResponse, error) {
	o.mu.Lock()
	o.calls = append(o.calls, len(req.GetUsers()))
	o.mu.Unlock()
	if o.arrived != nil {
		o.arrived(ctx)
	}
	res := &ticketv1.HoldsEntitlementResponse{}
	for _, u := range req.GetUsers() {
		if u.GetUserId() == "breaks" {
			return nil, errs.ErrUnavailable
		}
		res.Entitled = append(res.GetEntitled(), u.GetEmail() == u.GetUserId())
	}
	return res, nil
}

func TestEntitlementsAreAskedInBatches(t *testing.T) {
	t.Parallel()
	o := &fakeEntitlements{}
	d := serve(t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterEntitlementServiceServer(s, o) })
	visitors := make([]line.Visitor, 1001)
	for i := range visitors {
		visitors[i] = line.Visitor{UserID: strconv.Itoa(i), Email: strconv.Itoa(i - i%2)}
	}
	entitled, err := d.HoldEntitlement(t.Context(), "e", visitors)
	require.NoError(t, err)
	require.Len(t, entitled, len(visitors))
	for i, yes := range entitled {
		require.Equal(t, i%2 == 0, yes, i)
	}
	require.ElementsMatch(t, []int{500, 500, 1}, o.calls)
	require.NoError(t, d.Close(t.Context()))
	_, err = d.HoldEntitlement(t.Context(), "e", visitors[:1])
	require.ErrorIs(t, err, errs.ErrUnavailable)
}

// The calls of a batch run at once. A failed call fails only those requests that have users in it.
func TestFailedCallOfABatchIsNotTheOthers(t *testing.T) {
	t.Parallel()
	const requests = 3
	var all sync.WaitGroup
	all.Add(requests)
	together := make(chan struct{})
	go func() {
		all.Wait()
		close(together)
	}()
	o := &fakeEntitlements{arrived: func(ctx context.Context) {
		all.Done()
		select {
		case <-together:
		case <-ctx.Done():
		}
	}}
	d := serve(t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterEntitlementServiceServer(s, o) },
		func(c *batch.Config) { c.Max, c.Delay = requests, time.Hour }) // one batch of all
	failed := make(chan bool, requests)
	for i := range requests {
		visitors := slices.Repeat([]line.Visitor{{UserID: "u", Email: "u"}}, 500)
		if i == 0 {
			visitors[0].UserID = "breaks"
		}
		go func() {
			entitled, err := d.HoldEntitlement(t.Context(), "e", visitors)
			failed <- err != nil || slices.Contains(entitled, false)
		}()
	}
	failures := 0
	for range requests {
		if <-failed {
			failures++
		}
	}
	require.Equal(t, 1, failures)
	require.Equal(t, []int{500, 500, 500}, o.calls)
}

// A status that a later release may report is unknown here; nobody is admitted then.
func TestUnknownStatusIsNoMissingSale(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"ON_SALE_SOON", ""} {
		d := serve(t, func(s grpc.ServiceRegistrar) {
			ticketv1.RegisterEventServiceServer(s, &fakeEvents{answer: &ticketv1.GetSaleStatusResponse{
				Sales: []*ticketv1.SaleStatus{{EventId: "e", Status: status}},
			}})
		})
		found, _, err := d.Sales(t.Context(), []string{"e"})
		require.NoError(t, err)
		require.Equal(t, line.UnknownSale, found["e"].Status)
		require.False(t, found["e"].Status.AllowsAdmission())
		require.Empty(t, found["e"].Status.String())
	}
}

func TestSalesFailWhileTicketIsAway(t *testing.T) {
	t.Parallel()
	d := serve(t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterEventServiceServer(s, &fakeEvents{}) })
	_, _, err := d.Sales(t.Context(), []string{"e"})
	require.ErrorIs(t, err, errs.ErrUnavailable)
}
