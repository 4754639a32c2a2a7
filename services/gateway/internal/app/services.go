package app

import (
	"context"
	"errors"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/rpc"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Services are connections to the services behind the gateway, each with the interceptor that writes the Caller. VWR is nil when there is
// no tier 1.
type Services struct {
	VWR, Queue, Ticket, Payment, Stats grpc.ClientConnInterface
}

// dial connects to every service; close ends the connections.
func dial(ctx context.Context, cfg *Config) (s Services, closeAll func(context.Context) error, err error) {
	var conns []*grpc.ClientConn
	closeAll = func(context.Context) error {
		var all []error
		for _, c := range conns {
			all = append(all, c.Close())
		}
		return errors.Join(all...)
	}
	var failed []error
	open := func(name string, p rpc.Peer, opts ...rpc.DialOption) grpc.ClientConnInterface {
		opts = append(opts, rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.Unary)))
		c, err := rpc.Dial(rpc.Gateway, name, p, opts...)
		if err != nil {
			failed = append(failed, err)
			return nil
		}
		conns = append(conns, c)
		return c
	}
	if cfg.VWR.Addr != "" {
		s.VWR = open("vwr", cfg.VWR)
	}
	s.Queue, s.Ticket = open("queue", cfg.Queue), open("ticket", cfg.Ticket)
	s.Payment = open("payment", cfg.Payment)
	s.Stats = open("stats", cfg.Stats, rpc.WithBreaker()) // figures are what a visitor can do without
	if err := errors.Join(failed...); err != nil {
		return Services{}, nil, errors.Join(err, closeAll(ctx))
	}
	return s, closeAll, nil
}

// passed is one service whose HTTP rules the gateway serves.
type passed struct {
	descriptor protoreflect.ServiceDescriptor
	register   func(context.Context, *runtime.ServeMux) error
}

// passthroughs lists every service with HTTP rules.
func (s Services) passthroughs() []passed {
	service := func(fd protoreflect.FileDescriptor, name protoreflect.Name) protoreflect.ServiceDescriptor {
		return fd.Services().ByName(name)
	}
	list := []passed{
		{service(queuev1.File_urr_queue_v1_queue_proto, "QueueAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return queuev1.RegisterQueueAdminServiceHandlerClient(ctx, m, queuev1.NewQueueAdminServiceClient(s.Queue))
		}},
		{service(ticketv1.File_urr_ticket_v1_event_proto, "EventService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ticketv1.RegisterEventServiceHandlerClient(ctx, m, ticketv1.NewEventServiceClient(s.Ticket))
		}},
		{service(ticketv1.File_urr_ticket_v1_event_proto, "EventAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ticketv1.RegisterEventAdminServiceHandlerClient(ctx, m, ticketv1.NewEventAdminServiceClient(s.Ticket))
		}},
		{service(ticketv1.File_urr_ticket_v1_reservation_proto, "ReservationService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ticketv1.RegisterReservationServiceHandlerClient(ctx, m, ticketv1.NewReservationServiceClient(s.Ticket))
		}},
		{service(ticketv1.File_urr_ticket_v1_ticket_proto, "TicketService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ticketv1.RegisterTicketServiceHandlerClient(ctx, m, ticketv1.NewTicketServiceClient(s.Ticket))
		}},
		{service(paymentv1.File_urr_payment_v1_payment_proto, "PaymentService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return paymentv1.RegisterPaymentServiceHandlerClient(ctx, m, paymentv1.NewPaymentServiceClient(s.Payment))
		}},
		{service(statsv1.File_urr_stats_v1_stats_proto, "StatsService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return statsv1.RegisterStatsServiceHandlerClient(ctx, m, statsv1.NewStatsServiceClient(s.Stats))
		}},
	}
	if s.VWR != nil {
		list = append(list, passed{
			service(vwrv1.File_urr_vwr_v1_vwr_proto, "VwrAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
				return vwrv1.RegisterVwrAdminServiceHandlerClient(ctx, m, vwrv1.NewVwrAdminServiceClient(s.VWR))
			},
		})
	}
	return list
}

// routes are all there is: the hand-written ones and the services' rules.
func (s Services) routes(devLogin bool) ([]*edge.Route, error) {
	all := edge.Handwritten(devLogin)
	for _, p := range s.passthroughs() {
		routes, err := edge.FromService(p.descriptor)
		if err != nil {
			return nil, err
		}
		all = append(all, routes...)
	}
	return all, nil
}
