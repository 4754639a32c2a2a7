package app

import (
	"context"
	"errors"
	"fmt"

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
	register   func(context.Context, *runtime.ServeMux) error
}

func service(fd protoreflect.FileDescriptor, name protoreflect.Name) protoreflect.ServiceDescriptor {
	return fd.Services().ByName(name)
}

// exposed returns every service with HTTP rules.
func (s Services) exposed() []exposed {
	list := []exposed{
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
	if s.Reward != nil {
		list = append(list, exposed{
			service(rewardv1.File_urr_reward_v1_reward_proto, "RewardService"), func(ctx context.Context, m *runtime.ServeMux) error {
				return rewardv1.RegisterRewardServiceHandlerClient(ctx, m, rewardv1.NewRewardServiceClient(s.Reward))
			},
		}, exposed{
			service(rewardv1.File_urr_reward_v1_reward_proto, "RewardAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
				return rewardv1.RegisterRewardAdminServiceHandlerClient(ctx, m, rewardv1.NewRewardAdminServiceClient(s.Reward))
			},
		})
	}
	if s.Ingest != nil {
		list = append(list, s.promotions()...)
	}
	if s.VWR != nil {
		list = append(list, exposed{
			service(vwrv1.File_urr_vwr_v1_vwr_proto, "VwrAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
				return vwrv1.RegisterVwrAdminServiceHandlerClient(ctx, m, vwrv1.NewVwrAdminServiceClient(s.VWR))
			},
		})
	}
	return list
}

// promotions returns the services of promotions and requests to them.
func (s Services) promotions() []exposed {
	return []exposed{
		{service(ingestv1.File_urr_ingest_v1_ingest_proto, "IngestService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ingestv1.RegisterIngestServiceHandlerClient(ctx, m, ingestv1.NewIngestServiceClient(s.Ingest))
		}},
		{service(ingestv1.File_urr_ingest_v1_ingest_proto, "IngestAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return ingestv1.RegisterIngestAdminServiceHandlerClient(ctx, m, ingestv1.NewIngestAdminServiceClient(s.Ingest))
		}},
		{service(workerv1.File_urr_worker_v1_worker_proto, "WorkerAdminService"), func(ctx context.Context, m *runtime.ServeMux) error {
			return workerv1.RegisterWorkerAdminServiceHandlerClient(ctx, m, workerv1.NewWorkerAdminServiceClient(s.Worker))
		}},
	}
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
