package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	pkgsqs "urr.guru/pkg/sqs"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/dynamo"
	"urr.guru/services/ingest/internal/request"
	"urr.guru/services/ingest/internal/rpc"
	"urr.guru/services/ingest/internal/sqs"
	"urr.guru/services/ingest/internal/worker"
)

// Run serves the RPCs of the ingest service and runs its background workers until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, "ingest", cfg.Config, log)
	if err != nil {
		return err
	}
	db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
	if err != nil {
		return fmt.Errorf("dynamodb: %w", err)
	}
	client, err := pkgsqs.Open(ctx, cfg.sqs())
	if err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	store := dynamo.New(db, cfg.Dynamo, dynamo.CallTimeout, failpoint.Now)
	store.Log = log
	unsent := request.NewUnsent(store, failpoint.Now)
	sender := sqs.New(queue.New(client, cfg.Queue), store, unsent, min(sqs.MarkAfter, cfg.SendAfter/4), sqs.SendTimeout, failpoint.Now)
	// Closing the store stores the applications in progress, which the sender must still send.
	a.OnClose("sender", sender.Close)
	a.OnClose("store", store.Close)

	keys, err := fairdraw.NewReceiptKeyring(cfg.Draw)
	if err != nil {
		return err
	}
	drawer, err := a.Dial("worker", cfg.Worker)
	if err != nil {
		return err
	}
	promotions := request.NewPromotions(store, request.PromotionOptions{
		Keys: keys.Keys, Opener: worker.New(drawer), MinDelay: cfg.DrawMinDelay, Lead: cfg.DrawLead, Now: failpoint.Now,
	})
	draws, receipts := request.NewDraws(promotions, store, cfg.DrawCacheMB<<20, failpoint.Now), request.NewReceipts(keys.Keys, pkgdynamo.ClockSkew)
	places := request.NewPlaces(failpoint.Now, store.Capacity)
	requests := request.NewService(promotions, store, sender, request.Options{
		Load: store.Load, Places: places, SendWait: request.SendWait, Receipts: receipts, Now: failpoint.Now,
	})
	sweeper := request.NewSweeper(store, sender, unsent, request.SweeperOptions{
		SendAfter: cfg.SendAfter, FailAfter: cfg.FailAfter, LostAfter: cfg.LostAfter, Now: failpoint.Now,
	}, log)
	a.Go("sweeper", sweeper.Run)
	table.StartMetrics()
	a.Go("metrics", backlogWorker(sweeper))
	a.Go("expected openings", (&planned.Exporter{Kind: plan.Promotion, Find: promotions.ExpectedOpenings, Now: failpoint.Now}).Run(log))

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	ingestv1.RegisterIngestServiceServer(server, rpc.New(rpc.Config{
		Requests: requests, Promotions: promotions, Places: places, Draws: draws, Receipts: receipts, Queries: store, Now: failpoint.Now, Log: log,
	}))
	exporter := request.NewExporter(draws, store)
	ingestv1.RegisterIngestAdminServiceServer(server, rpc.NewAdmin(promotions, draws, exporter, store, failpoint.Now))
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(keys.Rekey(next.Draw), drawer.Rekey(next.Worker.Key), server.Rekey(next.RPC.Accept))
	})
	a.Ready("dynamodb", store.Ping)
	return a.Run(ctx)
}
