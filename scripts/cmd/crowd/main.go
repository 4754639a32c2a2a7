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
	d := &demo{cfg: cfg, layout: layout, sale: cfg.sale(), recorder: crowd.NewRecorder(), series: &audit.Series{}}
	url := cfg.URL
	if url == "" {
		url = layout.GatewayURL()
	}
	d.api = crowd.NewAPI(url, d.recorder)
	defer d.api.Close()
	if cfg.outside() {
		d.truth = &outside{visitor: crowd.NewAPI(url, crowd.NewRecorder()).NewSession(), sale: d.sale}
	} else {
		stores, err := audit.Open(ctx, cfg.stores(layout.Wiring(platform.Secrets{})))
		if err != nil {
			return fmt.Errorf("%w; is the platform up (make up)?", err)
		}
		defer stores.Close()
		d.truth = &inside{stores: stores, cfg: cfg, sale: d.sale, series: d.series}
	}
	if err := d.play(ctx, url); err != nil {
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
	truth    truth
	api      *crowd.API
	sale     crowd.Sale
	recorder *crowd.Recorder
	series   *audit.Series
	crowd    *crowd.Crowd
	took     time.Duration
}

// truth is what a run is measured and judged by.
type truth interface {
	// begin notes what was there before.
	begin(ctx context.Context) error
	// sample reads the state of the sale now, as far as it can be seen.
	sample(ctx context.Context) (audit.Sample, error)
	// judge waits until what is still on its way has arrived, and fills in the verdict.
	judge(ctx context.Context, tally *crowd.Tally, v *judged) error
}

// play opens the sale and lets the crowd in, sampling all the while.
func (d *demo) play(ctx context.Context, url string) error {
	if err := d.truth.begin(ctx); err != nil {
		return err
	}
	if err := d.sale.OpenAs(ctx, d.api, "crowd-operator"); err != nil {
		return fmt.Errorf("%w; is the platform up at %s (make up)?", err, url)
	}
	fmt.Printf("%d visitors come for %d seats of %s: %d let through a second, %d inside at once (seed %d)\n",
		d.cfg.Visitors, d.cfg.Seats, d.sale.EventID, d.cfg.Rate, d.cfg.Threshold, d.cfg.Seed)
	d.crowd = crowd.New(d.sale, d.api, crowd.Options{Visitors: d.cfg.Visitors, Arrive: d.cfg.Arrive, Seed: d.cfg.Seed})

	ctx, cancel := context.WithTimeout(ctx, d.cfg.Limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watch(watching, d.api.NewSession())
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
