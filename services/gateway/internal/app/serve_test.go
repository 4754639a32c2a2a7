package app_test

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/caller"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// outlastTimeouts gives a call to a fake a minute, so that a busy machine does not end it. The call
// still ends when its caller cancels it.
func outlastTimeouts(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})()
	return invoke(longer, method, req, reply, cc, opts...)
}

func (w *fixture) serve() app.Services {
	setsCaller := rpctest.WithDial(rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.SetCallerInterceptor, outlastTimeouts)))
	asGateway := rpctest.As(rpc.Gateway)
	return app.Services{
		VWR: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			vwrv1.RegisterVwrServiceServer(r, w.vwr)
			vwrv1.RegisterVwrAdminServiceServer(r, w.vwr)
		}, setsCaller, asGateway),
		Queue: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			queuev1.RegisterQueueServiceServer(r, w.queue)
			queuev1.RegisterQueueAdminServiceServer(r, w.queue)
			w.letters.register(r, "queue")
		}, setsCaller, asGateway),
		Ticket: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			ticketv1.RegisterEventServiceServer(r, w.ticket)
			ticketv1.RegisterEventAdminServiceServer(r, w.ticket)
			ticketv1.RegisterHoldServiceServer(r, w.ticket)
			ticketv1.RegisterReservationServiceServer(r, w.ticket)
			ticketv1.RegisterTicketServiceServer(r, w.ticket)
			ticketv1.RegisterCompServiceServer(r, w.ticket)
			ticketv1.RegisterTransferServiceServer(r, w.ticket)
			w.entitlements.register(r)
			ticketv1.RegisterMembershipServiceServer(r, w.ticket)
			ticketv1.RegisterMembershipAdminServiceServer(r, w.ticket)
			ticketv1.RegisterWebhookServiceServer(r, w.ticket)
			ticketv1.RegisterCheckInServiceServer(r, w.ticket)
			ticketv1.RegisterOrderAdminServiceServer(r, w.ticket)
			w.letters.register(r, "ticket")
		}, setsCaller, asGateway),
		Payment: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			w.payment.register(r)
			w.letters.register(r, "payment")
		}, setsCaller, asGateway),
		Stats: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			statsv1.RegisterStatsServiceServer(r, w.stats)
			w.letters.register(r, "stats")
		}, setsCaller, asGateway),
		Reward: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			rewardv1.RegisterRewardServiceServer(r, w.reward)
			rewardv1.RegisterRewardAdminServiceServer(r, w.reward)
			w.letters.register(r, "reward")
		}, setsCaller, asGateway),
		Ingest: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) {
			ingestv1.RegisterIngestServiceServer(r, w.ingest)
			ingestv1.RegisterIngestAdminServiceServer(r, w.ingest)
		}, setsCaller, asGateway),
		Worker: rpctest.Serve(w.t, func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerAdminServiceServer(r, w.worker) }, setsCaller, asGateway),
	}
}
