package sale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/internal/fetch"
)

// SmokeConfig has the settings of Smoke, the short sale, read from environment variables.
type SmokeConfig struct {
	// URL is the URL of the gateway, which must have DEV_LOGIN.
	URL string `env:"URL, required"`
	// Visitors is the number of simulated visitors, who arrive within Arrive.
	Visitors int           `env:"VISITORS, default=5" min:"1" max:"100000"`
	Arrive   time.Duration `env:"ARRIVE, default=2s" min:"0s" max:"1h"`
	// Limit ends a run that takes longer.
	Limit time.Duration `env:"LIMIT, default=4m" min:"1s" max:"2h"`
	// Probes is the number of additional requests per second, each on a new connection.
	Probes int `env:"PROBES, default=0" min:"0" max:"1000"`
	// Event is the event id of the sale; empty generates one.
	Event string `env:"EVENT"`
	// Seed determines what the visitors do.
	Seed uint64 `env:"SEED, default=1"`
}

// Smoke opens a sale and runs its visitors. It returns an error if a request got no response or a
// 5xx, if a visit ended in an error, if a forged pass was accepted, if one seat has two tickets, or
// if no visitor got a ticket.
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
	return errors.Join(probes.printResult(), judgeSmoke(c.Tally(), recorder.Summaries()))
}

// sale describes a sale with seats for all visitors, so that it does not sell out.
func (c *SmokeConfig) sale() crowd.Sale {
	event := c.Event
	if event == "" {
		event = fmt.Sprintf("smoke-%d", time.Now().UnixMilli())
	}
	return crowd.Sale{
		EventID: event, Seats: 2 * c.Visitors, Threshold: max(10, c.Visitors/3), Rate: max(10, c.Visitors/25), Hold: 30, Slot: 60,
	}
}

// judgeSmoke prints the results, and returns an error that contains all violations.
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

// prober requests one page at a steady rate, each time on a new connection. It notices moments in
// which new visitors would be refused. The crowd might not, since it sends few requests, most of
// them on existing connections.
type prober struct {
	url    string
	client *http.Client

	mu        sync.Mutex
	requests  int
	failed    int
	lastError string
}

func newProber(url string) *prober {
	return &prober{url: url, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
}

// run sends perSecond requests per second until ctx ends, and waits for the last responses.
func (p *prober) run(ctx context.Context, perSecond int) {
	if perSecond == 0 {
		return
	}
	var inProgress sync.WaitGroup
	defer inProgress.Wait()
	_ = loop.Every(ctx, time.Second/time.Duration(perSecond), func(ctx context.Context) { // ends with ctx
		inProgress.Go(func() { p.recordResult(p.probeOnce(context.WithoutCancel(ctx))) })
	})
}

func (p *prober) probeOnce(ctx context.Context) error {
	ans, err := fetch.Call(ctx, p.client, http.MethodGet, p.url, nil)
	if err == nil && ans.Status >= http.StatusInternalServerError {
		err = fmt.Errorf("GET %s: %d", p.url, ans.Status)
	}
	return err
}

func (p *prober) recordResult(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if err != nil {
		p.failed++
		p.lastError = err.Error()
	}
}

// printResult prints the number of requests, and returns an error if one failed.
func (p *prober) printResult() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests > 0 {
		fmt.Printf("%d probes, each on a new connection, %d failed\n", p.requests, p.failed)
	}
	if p.failed > 0 {
		return fmt.Errorf("%d probes failed, as: %s", p.failed, p.lastError)
	}
	return nil
}
