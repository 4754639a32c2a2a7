package sale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/crowd"
)

// SmokeConfig is read from the environment.
type SmokeConfig struct {
	// URL of the gateway, which must have DEV_LOGIN.
	URL string `env:"URL, required"`
	// Visitors is the size of the crowd, whose arrivals are spread over Arrive.
	Visitors int           `env:"VISITORS, default=5" min:"1" max:"100000"`
	Arrive   time.Duration `env:"ARRIVE, default=2s" min:"0s" max:"1h"`
	// Limit stops a run that takes longer.
	Limit time.Duration `env:"LIMIT, default=4m" min:"1s" max:"2h"`
	// Probes is the number of additional requests per second, each on a new connection.
	Probes int `env:"PROBES, default=0" min:"0" max:"1000"`
	// Event is the sale's id; empty generates one.
	Event string `env:"EVENT"`
	// Seed makes the crowd repeatable.
	Seed uint64 `env:"SEED, default=1"`
}

// Smoke opens a sale and sends the crowd. It fails when a request got no response or a 5xx, when
// a visit ended in an error, when a forged pass was accepted, when one seat has two tickets, or
// when no visitor got a ticket.
func Smoke(ctx context.Context) error {
	cfg, err := config.Load[SmokeConfig](ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	recorder := crowd.NewRecorder()
	api := crowd.NewAPI(cfg.URL, recorder)
	defer api.Close()
	sale := cfg.sale()
	if err := sale.Open(ctx, api, "smoke-operator"); err != nil {
		return err
	}
	c := crowd.New(sale, api, crowd.Options{Visitors: cfg.Visitors, Arrive: cfg.Arrive, Seed: cfg.Seed})
	fmt.Printf("%d visitors come within %s for %d seats of %s\n", cfg.Visitors, cfg.Arrive, sale.Seats, sale.EventID)
	probes := newProber(cfg.URL + "/api/v1/events/" + sale.EventID)
	probing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		probes.run(probing, cfg.Probes)
	}()
	began := time.Now()
	c.Run(ctx)
	stop()
	<-done
	fmt.Printf("all have gone after %s\n", time.Since(began).Round(time.Millisecond))
	return errors.Join(probes.verdict(), judgeSmoke(c.Tally(), recorder.Summaries()))
}

// sale has seats for all visitors, so that each who wants a ticket must get one.
func (c *SmokeConfig) sale() crowd.Sale {
	event := c.Event
	if event == "" {
		event = fmt.Sprintf("smoke-%d", time.Now().UnixMilli())
	}
	return crowd.Sale{
		EventID: event, Seats: 2 * c.Visitors, Threshold: max(10, c.Visitors/3), Rate: max(10, c.Visitors/25), Hold: 30, Slot: 60,
	}
}

// judgeSmoke prints the results and returns the violations.
func judgeSmoke(t *crowd.Tally, steps []crowd.Summary) error {
	var problems []string
	requests := 0
	fmt.Printf("%-14s %8s %8s %10s %10s\n", "step", "requests", "failed", "p50 ms", "p99 ms")
	for _, s := range steps {
		requests += s.Count
		fmt.Printf("%-14s %8d %8d %10.1f %10.1f\n", s.Step, s.Count, s.Errors, s.P50, s.P99)
		if s.Errors > 0 {
			problems = append(problems, fmt.Sprintf("%d requests of %s failed, as: %s", s.Errors, s.Step, s.LastError))
		}
	}
	outcomes := t.Outcomes()
	for outcome, n := range outcomes {
		if strings.HasPrefix(outcome, "error") || outcome == "cut off" || outcome == "sold_out" {
			problems = append(problems, fmt.Sprintf("%d visits ended so: %s", n, outcome))
		}
	}
	problems = append(problems, t.Violations()...)
	if outcomes["ticket"] == 0 {
		problems = append(problems, "nobody got a ticket")
	}
	fmt.Printf("%d requests; visits ended so: %v\n", requests, outcomes)
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	fmt.Println("no visitor's request failed")
	return nil
}
