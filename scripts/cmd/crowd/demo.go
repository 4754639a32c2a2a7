package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
)

// discardLogger discards the logs of Redis's client, which would garble the progress bars. The
// audit reports unavailable stores itself.
type discardLogger struct{}

// Printf discards its arguments.
func (discardLogger) Printf(context.Context, string, ...any) {}

func play(ctx context.Context, cfg *Config, layout platform.Layout) error {
	redis.SetLogger(discardLogger{})
	d := &saleDemo{cfg: cfg, url: cfg.URL, sale: cfg.sale(), recorder: crowd.NewRecorder(), series: &audit.Series{}}
	if d.url == "" {
		d.url = layout.GatewayURL()
	}
	d.api = crowd.NewAPI(d.url, d.recorder)
	defer d.api.Close()
	if cfg.withoutStores() {
		d.auditor = &publicAuditor{visitor: crowd.NewAPI(d.url, crowd.NewRecorder()).NewSession(), sale: d.sale}
	} else {
		stores, err := audit.Open(ctx, cfg.stores(layout.Wiring(platform.Secrets{})))
		if err != nil {
			return fmt.Errorf("%w; is the platform up (make up)?", err)
		}
		defer stores.Close()
		patience := audit.OutageWait{Limit: cfg.AwayLimit, Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
		d.auditor = &storeAuditor{stores: stores, threshold: cfg.Threshold, sale: d.sale, series: d.series, patience: patience}
	}
	return demo.Run(ctx, d, cfg.Break, layout.State("demo"))
}

// closeLimit bounds the cleanup of an interrupted run.
const closeLimit = 10 * time.Second

// closeSale ends an interrupted run: the sale must not continue without its observer.
func (d *saleDemo) closeSale(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if err := d.sale.Close(ctx, d.api, "crowd-operator"); err != nil {
		return fmt.Errorf("%w; %s stays open: %w", demo.ErrInterrupted, d.sale.EventID, err)
	}
	return fmt.Errorf("%w; %s is closed, the platform runs on (make status, make down)", demo.ErrInterrupted, d.sale.EventID)
}

// saleDemo is one run.
type saleDemo struct {
	cfg      *Config
	url      string // of the gateway
	auditor  auditor
	api      *crowd.API
	sale     crowd.Sale
	recorder *crowd.Recorder
	series   *audit.Series
	crowd    *crowd.Crowd
	began    time.Time
	took     time.Duration
}

// auditor measures and judges a run: by the stores, or by the public API when the stores are not
// accessible.
type auditor interface {
	// begin records the state before the run.
	begin(ctx context.Context) error
	// sample reads the current state of the sale, as far as it is visible.
	sample(ctx context.Context) (audit.Sample, error)
	// settle waits until everything in progress has completed.
	settle(ctx context.Context) error
	// damage damages the stores, bypassing the services.
	damage(ctx context.Context, what string) error
	// judge sets the verdict.
	judge(ctx context.Context, tally *crowd.Tally, v *findings) error
}

// Play runs the crowd and waits until everything in progress has completed. An interrupted run closes
// its sale.
func (d *saleDemo) Play(ctx context.Context) error {
	err := d.play(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return d.closeSale(ctx)
	case err != nil:
		return err
	}
	return d.auditor.settle(ctx)
}

// Damage damages the stores to show that Judge detects it.
func (d *saleDemo) Damage(ctx context.Context, what string) error { return d.auditor.damage(ctx, what) }

// play opens the sale, runs the crowd, and samples meanwhile.
func (d *saleDemo) play(ctx context.Context) error {
	if err := d.auditor.begin(ctx); err != nil {
		return err
	}
	if err := d.sale.Open(ctx, d.api, "crowd-operator"); err != nil {
		return fmt.Errorf("%w; is the platform up at %s (make up)?", err, d.url)
	}
	fmt.Printf("%d visitors come for %d seats of %s: %d let through a second, %d inside at once (seed %d)\n",
		d.cfg.Visitors, d.cfg.Seats, d.sale.EventID, d.cfg.Rate, d.cfg.Threshold, d.cfg.Seed)
	d.crowd = crowd.New(d.sale, d.api, crowd.Options{
		Visitors: d.cfg.Visitors, Arrive: d.cfg.Arrive, Seed: d.cfg.Seed,
		// A charge that was lost while a store was unavailable is voided and reported as declined,
		// so visitors retry.
		MaxPaymentAttempts: 3,
	})

	limited, cancel := context.WithTimeout(ctx, d.cfg.Limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(limited)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watch(watching, d.api.NewSession())
	}()
	d.began = time.Now()
	d.crowd.Run(limited)
	d.took = time.Since(d.began)
	stopWatching()
	<-done
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		fmt.Printf("the run was cut off after %s (LIMIT)\n", d.cfg.Limit)
	}
	return nil
}
