// Command crowd shows the main job working: a crowd of simulated visitors buys out one sale through the gateway, then the truth is
// read from the stores. It ends with one line, `demo ok: …` or `demo FAILED: …`, and exit code 1 when an invariant is broken.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	if err != nil && !errors.Is(err, errBroken) { // a run without a verdict has failed too, and its last line says so
		fmt.Println("demo FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err != nil {
		os.Exit(1)
	}
}

// errBroken is an invariant that does not hold; its line has been printed.
var errBroken = errors.New("an invariant is broken")

func run(ctx context.Context) error {
	cfg, err := config.Load[Config](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	if cfg.URL == "" {
		cfg.URL = layout.GatewayURL()
	}
	stores, err := audit.Open(ctx, cfg.stores(layout.Wiring(platform.Secrets{})))
	if err != nil {
		return err
	}
	defer stores.Close()

	d := &demo{cfg: cfg, layout: layout, stores: stores, sale: cfg.sale(), recorder: crowd.NewRecorder(), series: &audit.Series{}}
	if err := d.play(ctx); err != nil {
		return err
	}
	verdict, err := d.judge(ctx)
	if err != nil {
		return err
	}
	if err := d.report(verdict); err != nil {
		return err
	}
	fmt.Println(verdict.Line())
	if !verdict.OK() {
		return errBroken
	}
	return nil
}

// demo is one run.
type demo struct {
	cfg      *Config
	layout   platform.Layout
	stores   *audit.Stores
	sale     crowd.Sale
	recorder *crowd.Recorder
	series   *audit.Series
	crowd    *crowd.Crowd
	took     time.Duration
}

// play opens the sale and lets the crowd in, sampling the stores all the while.
func (d *demo) play(ctx context.Context) error {
	api := crowd.NewAPI(d.cfg.URL, d.recorder)
	defer api.Close()
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, "crowd-operator", "admin"); err != nil {
		return fmt.Errorf("%w; is the platform up at %s (make up)?", err, d.cfg.URL)
	}
	if err := d.sale.Open(ctx, admin); err != nil {
		return fmt.Errorf("open the sale: %w", err)
	}
	fmt.Printf("%d visitors come for %d seats of %s: %d let through a second, %d inside at once (seed %d)\n",
		d.cfg.Visitors, d.cfg.Seats, d.sale.EventID, d.cfg.Rate, d.cfg.Threshold, d.cfg.Seed)
	d.crowd = crowd.New(d.sale, api, crowd.Options{Visitors: d.cfg.Visitors, Arrive: d.cfg.Arrive, Seed: d.cfg.Seed})

	ctx, cancel := context.WithTimeout(ctx, d.cfg.Limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watch(watching, api.NewSession())
	}()
	start := time.Now()
	d.crowd.Run(ctx)
	d.took = time.Since(start)
	stopWatching()
	<-done
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		fmt.Printf("the run was cut off after %s (LIMIT)\n", d.cfg.Limit)
	}
	return nil
}
