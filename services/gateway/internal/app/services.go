package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/services/gateway/internal/api"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/roomstate"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// Peers are the addresses and keys of the services behind the gateway that a room does not call.
type Peers struct {
	Ticket  rpc.Peer `env:", prefix=TICKET_"`
	Payment rpc.Peer `env:", prefix=PAYMENT_"`
	Stats   rpc.Peer `env:", prefix=STATS_"`
	// Reward may lack an address: then there are no rewards.
	Reward rpc.OptionalPeer `env:", prefix=REWARD_"`
	// Ingest may lack an address: then there are no promotions.
	Ingest rpc.OptionalPeer `env:", prefix=INGEST_"`
	// Worker is required with INGEST_ADDR, and not used without it.
	Worker rpc.OptionalPeer `env:", prefix=WORKER_"`
}

// Services are the connections to the services behind the gateway. They set the caller in each request.
// The connection to a service that is not deployed is nil.
type Services struct {
	VWR, Queue, Ticket, Payment, Stats, Reward, Ingest, Worker grpc.ClientConnInterface
}

// peerService is a service behind the gateway: its address, its connection, and its exposed APIs.
type peerService struct {
	name string
	peer rpc.Peer
	conn *grpc.ClientConnInterface
	opts []rpc.DialOption
	apis []exposedAPI // the APIs whose HTTP rules the gateway serves
}

// listServices lists all services behind the gateway. Connections to the services that no sale
// needs have a circuit breaker.
func (s *Services) listServices(p *Config) []peerService {
	worker := rpc.Peer(p.Worker)
	if p.Ingest.Addr == "" {
		worker = rpc.Peer{}
	}
	breaker := []rpc.DialOption{rpc.WithBreaker()}
	return []peerService{
		{"queue", p.Queue, &s.Queue, nil, []exposedAPI{
			exposeAPI(queuev1.QueueAdminService_ServiceDesc, queuev1.NewQueueAdminServiceClient, queuev1.RegisterQueueAdminServiceHandlerClient),
		}},
		{"ticket", p.Ticket, &s.Ticket, nil, []exposedAPI{
			exposeAPI(ticketv1.EventService_ServiceDesc, ticketv1.NewEventServiceClient, ticketv1.RegisterEventServiceHandlerClient),
			exposeAPI(ticketv1.EventAdminService_ServiceDesc, ticketv1.NewEventAdminServiceClient, ticketv1.RegisterEventAdminServiceHandlerClient),
			exposeAPI(ticketv1.ReservationService_ServiceDesc, ticketv1.NewReservationServiceClient, ticketv1.RegisterReservationServiceHandlerClient),
			exposeAPI(ticketv1.TicketService_ServiceDesc, ticketv1.NewTicketServiceClient, ticketv1.RegisterTicketServiceHandlerClient),
			exposeAPI(ticketv1.CompService_ServiceDesc, ticketv1.NewCompServiceClient, ticketv1.RegisterCompServiceHandlerClient),
			exposeAPI(ticketv1.TransferService_ServiceDesc, ticketv1.NewTransferServiceClient, ticketv1.RegisterTransferServiceHandlerClient),
			exposeAPI(
				ticketv1.EntitlementService_ServiceDesc, ticketv1.NewEntitlementServiceClient, ticketv1.RegisterEntitlementServiceHandlerClient),
			exposeAPI(
				ticketv1.EntitlementAdminService_ServiceDesc, ticketv1.NewEntitlementAdminServiceClient,
				ticketv1.RegisterEntitlementAdminServiceHandlerClient),
			exposeAPI(ticketv1.MembershipService_ServiceDesc, ticketv1.NewMembershipServiceClient, ticketv1.RegisterMembershipServiceHandlerClient),
			exposeAPI(ticketv1.MembershipAdminService_ServiceDesc, ticketv1.NewMembershipAdminServiceClient, ticketv1.RegisterMembershipAdminServiceHandlerClient),
			exposeAPI(ticketv1.WebhookService_ServiceDesc, ticketv1.NewWebhookServiceClient, ticketv1.RegisterWebhookServiceHandlerClient),
			exposeAPI(ticketv1.CheckInService_ServiceDesc, ticketv1.NewCheckInServiceClient, ticketv1.RegisterCheckInServiceHandlerClient),
		}},
		{"payment", p.Payment, &s.Payment, nil, []exposedAPI{
			exposeAPI(paymentv1.PaymentService_ServiceDesc, paymentv1.NewPaymentServiceClient, paymentv1.RegisterPaymentServiceHandlerClient),
			exposeAPI(paymentv1.RefundService_ServiceDesc, paymentv1.NewRefundServiceClient, paymentv1.RegisterRefundServiceHandlerClient),
			exposeAPI(paymentv1.RefundAdminService_ServiceDesc, paymentv1.NewRefundAdminServiceClient, paymentv1.RegisterRefundAdminServiceHandlerClient),
			exposeAPI(paymentv1.DisputeAdminService_ServiceDesc, paymentv1.NewDisputeAdminServiceClient, paymentv1.RegisterDisputeAdminServiceHandlerClient),
			exposeAPI(paymentv1.DifferenceAdminService_ServiceDesc, paymentv1.NewDifferenceAdminServiceClient, paymentv1.RegisterDifferenceAdminServiceHandlerClient),
		}},
		{"stats", p.Stats, &s.Stats, breaker, []exposedAPI{
			exposeAPI(statsv1.StatsService_ServiceDesc, statsv1.NewStatsServiceClient, statsv1.RegisterStatsServiceHandlerClient),
		}},
		{"reward", rpc.Peer(p.Reward), &s.Reward, breaker, []exposedAPI{
			exposeAPI(rewardv1.RewardService_ServiceDesc, rewardv1.NewRewardServiceClient, rewardv1.RegisterRewardServiceHandlerClient),
			exposeAPI(rewardv1.RewardAdminService_ServiceDesc, rewardv1.NewRewardAdminServiceClient, rewardv1.RegisterRewardAdminServiceHandlerClient),
		}},
		{"ingest", rpc.Peer(p.Ingest), &s.Ingest, breaker, []exposedAPI{
			exposeAPI(ingestv1.IngestService_ServiceDesc, ingestv1.NewIngestServiceClient, ingestv1.RegisterIngestServiceHandlerClient),
			exposeAPI(ingestv1.IngestAdminService_ServiceDesc, ingestv1.NewIngestAdminServiceClient, ingestv1.RegisterIngestAdminServiceHandlerClient),
		}},
		{"worker", worker, &s.Worker, breaker, []exposedAPI{
			exposeAPI(workerv1.WorkerAdminService_ServiceDesc, workerv1.NewWorkerAdminServiceClient, workerv1.RegisterWorkerAdminServiceHandlerClient),
		}},
		{"vwr", rpc.Peer(p.VWR), &s.VWR, nil, []exposedAPI{
			exposeAPI(vwrv1.VwrService_ServiceDesc, vwrv1.NewVwrServiceClient, vwrv1.RegisterVwrServiceHandlerClient),
			exposeAPI(vwrv1.VwrAdminService_ServiceDesc, vwrv1.NewVwrAdminServiceClient, vwrv1.RegisterVwrAdminServiceHandlerClient),
		}},
	}
}

func (s *Services) newRooms() *roomstate.Rooms {
	if s.VWR == nil {
		return roomstate.Disabled()
	}
	return roomstate.New()
}

type connections map[string]*rpc.Conn

// dial makes a connection to every service that has an address, without waiting for the services.
func dial(a *lifecycle.App, peers *Config) (Services, connections, error) {
	var s Services
	var failed []error
	conns := connections{}
	for _, service := range s.listServices(peers) {
		if service.peer.Addr == "" {
			continue
		}
		c, err := a.Dial(service.name, service.peer, append(service.opts, rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.SetCallerInterceptor)))...)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		conns[service.name], *service.conn = c, c
	}
	return s, conns, errors.Join(failed...)
}

// rekey replaces the keys that sign the calls to the services.
func (c connections) rekey(peers *Config) error {
	var all []error
	for _, service := range new(Services).listServices(peers) {
		if conn := c[service.name]; conn != nil {
			all = append(all, conn.Rekey(service.peer.Key))
		}
	}
	return errors.Join(all...)
}

// exposedAPI is a gRPC service whose RPCs clients can call by HTTP.
type exposedAPI struct {
	name     string
	register func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error
}

func exposeAPI[C any](
	desc grpc.ServiceDesc, client func(grpc.ClientConnInterface) C, register func(context.Context, *runtime.ServeMux, C) error,
) exposedAPI {
	return exposedAPI{desc.ServiceName, func(ctx context.Context, m *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return register(ctx, m, client(conn))
	}}
}

// registerRoutes registers the API's RPCs on pass, and returns the routes that their HTTP rules define.
func (p exposedAPI) registerRoutes(ctx context.Context, pass *api.Passthrough, conn grpc.ClientConnInterface) ([]*edge.Route, error) {
	if err := p.register(ctx, pass.Mux, conn); err != nil {
		return nil, fmt.Errorf("register %s: %w", p.name, err)
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(p.name))
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", p.name, err)
	}
	routes, err := edge.FromService(d.(protoreflect.ServiceDescriptor), pass.Handle) //nolint:forcetypeassert // it is the name of a service
	for _, r := range routes {
		r.Irreversible = irreversible[r.RPC]
	}
	return routes, err
}

// deadLettersAPI returns the API of dead letters. It asks all services that consume Kafka.
func (s *Services) deadLettersAPI() exposedAPI {
	letters := handlers.NewDeadLetters(map[string]grpc.ClientConnInterface{
		"payment": s.Payment, "queue": s.Queue, "reward": s.Reward, "stats": s.Stats, "ticket": s.Ticket,
	})
	return exposedAPI{kafkav1.DeadLetterService_ServiceDesc.ServiceName, func(ctx context.Context, m *runtime.ServeMux, _ grpc.ClientConnInterface) error {
		return kafkav1.RegisterDeadLetterServiceHandlerClient(ctx, m, letters)
	}}
}

// ordersAPI returns the API of orders. It combines data of the ticket and the payment service.
func (s *Services) ordersAPI() exposedAPI {
	orders := &handlers.Orders{Tickets: ticketv1.NewOrderAdminServiceClient(s.Ticket), Payments: paymentv1.NewPaymentAdminServiceClient(s.Payment)}
	return exposedAPI{ticketv1.OrderAdminService_ServiceDesc.ServiceName, func(ctx context.Context, m *runtime.ServeMux, _ grpc.ClientConnInterface) error {
		return ticketv1.RegisterOrderAdminServiceHandlerClient(ctx, m, orders)
	}}
}

// registerAll registers the APIs of all deployed services on pass, and returns their routes.
func (s *Services) registerAll(ctx context.Context, pass *api.Passthrough) ([]*edge.Route, error) {
	// The API of dead letters is registered first. Its pattern has a parameter where the paths of the
	// worker's dead letters have a fixed name. Of two patterns that match a path, the router takes the
	// one registered last, so those paths reach their own RPC.
	all, err := s.deadLettersAPI().registerRoutes(ctx, pass, nil)
	if err != nil {
		return nil, err
	}
	orders, err := s.ordersAPI().registerRoutes(ctx, pass, nil)
	if err != nil {
		return nil, err
	}
	all = append(all, orders...)
	for _, service := range s.listServices(new(Config)) {
		if *service.conn == nil {
			continue
		}
		for _, p := range service.apis {
			routes, err := p.registerRoutes(ctx, pass, *service.conn)
			if err != nil {
				return nil, err
			}
			all = append(all, routes...)
		}
	}
	if s.Reward != nil {
		for _, r := range all {
			if strings.HasPrefix(r.Pattern, "/api/v1/admin/rewards/{"+rewardParam+"}") {
				r.EventOf = campaignOf(rewardv1.NewRewardAdminServiceClient(s.Reward))
			}
		}
	}
	return all, nil
}

// rewardParam is the path parameter that contains a reward's id.
const rewardParam = "allocation_id"

// campaignTimeout limits the search for a reward's campaign, which only the audit log needs.
const campaignTimeout = time.Second

// campaignOf returns a function that finds the campaign of the reward whose id is in the path.
func campaignOf(rewards rewardv1.RewardAdminServiceClient) func(context.Context, *edge.Request) string {
	return func(ctx context.Context, q *edge.Request) string {
		ctx, cancel := context.WithTimeout(ctx, campaignTimeout)
		defer cancel()
		r, err := rewards.GetReward(caller.With(ctx, q.Caller()), &rewardv1.GetRewardRequest{AllocationId: q.Param(rewardParam)})
		if err != nil {
			return "" // the audit log then has the act without its campaign
		}
		return r.GetEventId()
	}
}
