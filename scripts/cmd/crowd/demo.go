package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/config"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
)

// runDemo runs the demo and prints its last line for every outcome.
func runDemo(ctx context.Context) error {
	redis.SetLogger(discardLogger{})
	return demo.End(ctx, "demo", playDemo(ctx))
}

// discardLogger discards the logs of Redis's client, which would garble the progress bars. The
// audit reports unavailable stores itself.
type discardLogger struct{}

// Printf discards its arguments.
func (discardLogger) Printf(context.Context, string, ...any) {}

func playDemo(ctx context.Context) error {
	cfg, err := config.Load[Config](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	d := &saleDemo{cfg: cfg, layout: layout, sale: cfg.sale(), recorder: crowd.NewRecorder(), series: &audit.Series{}}
	url := cfg.URL
	if url == "" {
		url = layout.GatewayURL()
	}
	d.api = crowd.NewAPI(url, d.recorder)
	defer d.api.Close()
	if cfg.withoutStores() {
		d.auditor = &publicAuditor{visitor: crowd.NewAPI(url, crowd.NewRecorder()).NewSession(), sale: d.sale}
	} else {
		stores, err := audit.Open(ctx, cfg.stores(layout.Wiring(platform.Secrets{})))
		if err != nil {
			return fmt.Errorf("%w; is the platform up (make up)?", err)
		}
		defer stores.Close()
		patience := audit.OutageWait{Limit: cfg.AwayLimit, Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
		d.auditor = &storeAuditor{stores: stores, cfg: cfg, sale: d.sale, series: d.series, patience: patience}
	}
	if err := d.play(ctx, url); err != nil {
		if ctx.Err() != nil {
			return d.closeSale(ctx)
		}
		return err
	}
	verdict, err := d.judge(ctx)
	if err != nil {
		return err
	}
	if err := d.report(verdict); err != nil {
		return err
	}
	return demo.Conclude(verdict)
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
	layout   platform.Layout
	auditor  auditor
	api      *crowd.API
	sale     crowd.Sale
	recorder *crowd.Recorder
	series   *audit.Series
	crowd    *crowd.Crowd
	took     time.Duration
}

// auditor measures and judges a run: by the stores, or by the public API when the stores are not
// accessible.
type auditor interface {
	// begin records the state before the run.
	begin(ctx context.Context) error
	// sample reads the current state of the sale, as far as it is visible.
	sample(ctx context.Context) (audit.Sample, error)
	// judge waits until everything in progress has completed, and sets the verdict.
	judge(ctx context.Context, tally *crowd.Tally, v *findings) error
}

// play opens the sale, runs the crowd, and samples meanwhile.
func (d *saleDemo) play(ctx context.Context, url string) error {
	if err := d.auditor.begin(ctx); err != nil {
		return err
	}
	if err := d.sale.Open(ctx, d.api, "crowd-operator"); err != nil {
		return fmt.Errorf("%w; is the platform up at %s (make up)?", err, url)
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
	start := time.Now()
	d.crowd.Run(limited)
	d.took = time.Since(start)
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
