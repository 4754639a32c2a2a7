package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/services/gateway/internal/api"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/roomstate"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// Services are the connections to the services behind the gateway, each with the interceptor that
// sets the Caller. VWR is nil when there is no tier 1, Reward when there are no rewards, Ingest and
// Worker when there are no promotions.
type Services struct {
	VWR, Queue, Ticket, Payment, Stats, Reward, Ingest, Worker grpc.ClientConnInterface
}

// newRooms returns the waiting rooms for Watch to fill, or disabled ones without tier 1.
func (s Services) newRooms() *roomstate.Rooms {
	if s.VWR == nil {
		return roomstate.Disabled()
	}
	return roomstate.New()
}

// connections to the services, by name.
type connections map[string]*rpc.Conn

// dial makes a connection to every service that has an address, without waiting for the services.
func dial(a *lifecycle.App, cfg *Config) (Services, connections, error) {
	conns := connections{}
	var failed []error
	open := func(name string, opts ...rpc.DialOption) grpc.ClientConnInterface {
		opts = append(opts, rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.Unary)))
		c, err := a.Dial(name, cfg.peers()[name], opts...)
		if err != nil {
			failed = append(failed, err)
			return nil
		}
		conns[name] = c
		return c
	}
	s := Services{Queue: open("queue"), Ticket: open("ticket"), Payment: open("payment")}
	s.Stats = open("stats", rpc.WithBreaker()) // visitors do not depend on statistics
	if cfg.VWR.Addr != "" {
		s.VWR = open("vwr")
	}
	if cfg.Reward.Addr != "" {
		s.Reward = open("reward", rpc.WithBreaker()) // sales do not depend on rewards
	}
	if cfg.Ingest.Addr != "" { // nor on promotions
		s.Ingest, s.Worker = open("ingest", rpc.WithBreaker()), open("worker", rpc.WithBreaker())
	}
	return s, conns, errors.Join(failed...)
}

func (c *Config) peers() map[string]rpc.Peer {
	return map[string]rpc.Peer{
		"vwr": c.VWR, "queue": c.Queue, "ticket": c.Ticket, "payment": c.Payment, "stats": c.Stats, "reward": c.Reward,
		"ingest": c.Ingest, "worker": c.Worker,
	}
}

// rekey replaces the keys for signing calls.
func (c connections) rekey(cfg *Config) error {
	var all []error
	for name, conn := range c {
		all = append(all, conn.Rekey(cfg.peers()[name].Key))
	}
	return errors.Join(all...)
}

// exposed is one service whose HTTP rules the gateway serves.
type exposed struct {
	descriptor protoreflect.ServiceDescriptor
	register   func(context.Context, *runtime.ServeMux) error // nil: the service is not deployed
}

// expose makes the exposed of a service from its generated functions.
func expose[C any](
	conn grpc.ClientConnInterface, file protoreflect.FileDescriptor, name protoreflect.Name,
	client func(grpc.ClientConnInterface) C, register func(context.Context, *runtime.ServeMux, C) error,
) exposed {
	e := exposed{descriptor: file.Services().ByName(name)}
	if conn != nil {
		e.register = func(ctx context.Context, m *runtime.ServeMux) error { return register(ctx, m, client(conn)) }
	}
	return e
}

// exposed returns every deployed service with HTTP rules.
func (s Services) exposed() []exposed {
	list := []exposed{
		expose(s.Queue, queuev1.File_urr_queue_v1_queue_proto, "QueueAdminService",
			queuev1.NewQueueAdminServiceClient, queuev1.RegisterQueueAdminServiceHandlerClient),
		expose(s.Ticket, ticketv1.File_urr_ticket_v1_event_proto, "EventService",
			ticketv1.NewEventServiceClient, ticketv1.RegisterEventServiceHandlerClient),
		expose(s.Ticket, ticketv1.File_urr_ticket_v1_event_proto, "EventAdminService",
			ticketv1.NewEventAdminServiceClient, ticketv1.RegisterEventAdminServiceHandlerClient),
		expose(s.Ticket, ticketv1.File_urr_ticket_v1_reservation_proto, "ReservationService",
			ticketv1.NewReservationServiceClient, ticketv1.RegisterReservationServiceHandlerClient),
		expose(s.Ticket, ticketv1.File_urr_ticket_v1_ticket_proto, "TicketService",
			ticketv1.NewTicketServiceClient, ticketv1.RegisterTicketServiceHandlerClient),
		expose(s.Payment, paymentv1.File_urr_payment_v1_payment_proto, "PaymentService",
			paymentv1.NewPaymentServiceClient, paymentv1.RegisterPaymentServiceHandlerClient),
		expose(s.Stats, statsv1.File_urr_stats_v1_stats_proto, "StatsService",
			statsv1.NewStatsServiceClient, statsv1.RegisterStatsServiceHandlerClient),
		expose(s.Reward, rewardv1.File_urr_reward_v1_reward_proto, "RewardService",
			rewardv1.NewRewardServiceClient, rewardv1.RegisterRewardServiceHandlerClient),
		expose(s.Reward, rewardv1.File_urr_reward_v1_reward_proto, "RewardAdminService",
			rewardv1.NewRewardAdminServiceClient, rewardv1.RegisterRewardAdminServiceHandlerClient),
		expose(s.Ingest, ingestv1.File_urr_ingest_v1_ingest_proto, "IngestService",
			ingestv1.NewIngestServiceClient, ingestv1.RegisterIngestServiceHandlerClient),
		expose(s.Ingest, ingestv1.File_urr_ingest_v1_ingest_proto, "IngestAdminService",
			ingestv1.NewIngestAdminServiceClient, ingestv1.RegisterIngestAdminServiceHandlerClient),
		expose(s.Worker, workerv1.File_urr_worker_v1_worker_proto, "WorkerAdminService",
			workerv1.NewWorkerAdminServiceClient, workerv1.RegisterWorkerAdminServiceHandlerClient),
		expose(s.VWR, vwrv1.File_urr_vwr_v1_vwr_proto, "VwrService",
			vwrv1.NewVwrServiceClient, vwrv1.RegisterVwrServiceHandlerClient),
		expose(s.VWR, vwrv1.File_urr_vwr_v1_vwr_proto, "VwrAdminService",
			vwrv1.NewVwrAdminServiceClient, vwrv1.RegisterVwrAdminServiceHandlerClient),
	}
	return slices.DeleteFunc(list, func(e exposed) bool { return e.register == nil })
}

// passThrough registers the services on pass and returns the routes of their HTTP rules.
func (s Services) passThrough(ctx context.Context, pass *api.Passthrough) ([]*edge.Route, error) {
	var all []*edge.Route
	for _, p := range s.exposed() {
		if err := p.register(ctx, pass.Mux); err != nil {
			return nil, fmt.Errorf("register %s: %w", p.descriptor.FullName(), err)
		}
		routes, err := edge.FromService(p.descriptor, passThroughDetails, pass.Handle)
		if err != nil {
			return nil, err
		}
		all = append(all, routes...)
	}
	return all, nil
}
