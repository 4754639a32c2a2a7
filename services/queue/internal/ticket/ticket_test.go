package ticket_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/ticket"
)

// office is a ticket service that knows one answer.
type office struct {
	ticketv1.UnimplementedEventServiceServer

	answer *ticketv1.GetSaleStatusResponse
}

func (o *office) GetSaleStatus(context.Context, *ticketv1.GetSaleStatusRequest) (*ticketv1.GetSaleStatusResponse, error) {
	if o.answer == nil {
		return nil, errs.ErrUnavailable
	}
	return o.answer, nil
}

func serve(t *testing.T, register func(grpc.ServiceRegistrar)) *ticket.Directory {
	t.Helper()
	t.Parallel()
	conn := rpctest.Serve(t, register, rpctest.As("queue"), rpctest.WithDial(pkgrpc.WithTimeout(time.Minute)))
	return ticket.New(conn, conn)
}

func TestSalesAreToldWithTheirAge(t *testing.T) {
	opens := time.UnixMilli(1_800_000_000_000)
	d := serve(t, func(s grpc.ServiceRegistrar) {
		ticketv1.RegisterEventServiceServer(s, &office{answer: &ticketv1.GetSaleStatusResponse{MeasuredAgoMs: 400, Sales: []*ticketv1.SaleStatus{{
			EventId: "e", Status: "SOLD_OUT", OpensAt: timestamppb.New(opens), ClosesAt: timestamppb.New(opens.Add(time.Hour)), MeasuredAgoMs: 3000,
			SettingsVersion: 7,
		}}}})
	})
	found, missing, err := d.Sales(t.Context(), []string{"e", "none"})
	require.NoError(t, err)
	require.Equal(t, 400*time.Millisecond, missing)
	sale := line.Sale{Status: line.SoldOut, OpensAt: opens.UnixMilli(), ClosesAt: opens.Add(time.Hour).UnixMilli()}
	require.Equal(t, map[string]line.SaleReport{"e": {Age: 3 * time.Second, SettingsVersion: 7, Sale: sale}}, found)
}

func TestATicketThatIsAwayIsNoPreviousRelease(t *testing.T) {
	d := serve(t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterEventServiceServer(s, &office{}) })
	_, _, err := d.Sales(t.Context(), []string{"e"})
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.NotErrorIs(t, err, line.ErrSalesUnsupported)
}

func TestThePreviousReleaseDoesNotTell(t *testing.T) {
	d := serve(t, func(s grpc.ServiceRegistrar) {
		desc := ticketv1.EventService_ServiceDesc
		desc.Methods = slices.DeleteFunc(slices.Clone(desc.Methods), func(m grpc.MethodDesc) bool { return m.MethodName == "GetSaleStatus" })
		s.RegisterService(&desc, &office{})
	})
	_, _, err := d.Sales(t.Context(), []string{"e"})
	require.ErrorIs(t, err, line.ErrSalesUnsupported)
}

// forgetful is ticket's previous release, which ignores unblock_user.
type forgetful struct {
	ticketv1.UnimplementedEventServiceServer
}

func (forgetful) PutLineSettings(context.Context, *ticketv1.PutLineSettingsRequest) (*ticketv1.LineSettings, error) {
	return &ticketv1.LineSettings{BlockedUsers: []string{"a"}}, nil
}

func TestPreviousReleaseCannotUnblock(t *testing.T) {
	d := serve(t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterEventServiceServer(s, forgetful{}) })
	require.NoError(t, d.Change(t.Context(), "e", line.SettingsChange{Block: "a"}))
	require.NoError(t, d.Change(t.Context(), "e", line.SettingsChange{Unblock: "b"}))
	require.ErrorIs(t, d.Change(t.Context(), "e", line.SettingsChange{Unblock: "a"}), errs.ErrUnavailable)
}
