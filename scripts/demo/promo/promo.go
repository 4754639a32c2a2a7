// Package promo is the promotions demo. Through the gateway, one group of users applies to a
// first-come promotion, and another to a lottery; some apply twice. The verdict is based on the
// table, the topic with the results, and the draw's public document.
package promo

import (
	"context"
	"fmt"
	"time"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
)

// Config is read from environment variables, so that `make demo-promo APPLICANTS=300` works.
type Config struct {
	// Applicants is the number of users who apply to each promotion. FirstCome and Lottery are the
	// promotions' numbers of places.
	Applicants int `env:"APPLICANTS, default=5000" min:"1" max:"100000"`
	FirstCome  int `env:"FIRST_COME, default=500" min:"1" max:"100000"`
	Lottery    int `env:"LOTTERY, default=100" min:"1" max:"100000"`
	// Window is how long the lottery takes applications, a part of its terms. Who applies later is
	// refused.
	Window time.Duration `env:"WINDOW, default=3m" min:"1s" max:"1h"`
	// Delay is the time from the lottery's cutoff to the beacon's round. The root of the entries is
	// made some seconds after the cutoff, and must be public for a minute before that round.
	Delay time.Duration `env:"DELAY, default=80s" min:"1s" max:"1h"`
	// Limit is how long, once the result is due, nothing may get settled while requests are unsettled.
	Limit time.Duration `env:"LIMIT, default=2m" min:"1s" max:"1h"`
	// Break injects a fault into the table before the audit, to show that the audit detects it.
	Break string `env:"BREAK"`
}

// Validate returns an error if Break is no known kind of fault.
func (c *Config) Validate() error { return demo.CheckFaultKind(c.Break, audit.PromotionFaultKinds()) }

// lead is the time from the beacon's round until the results are announced.
const lead = 15 * time.Second

// run is one run of the promotions demo.
type run struct {
	*demo.Stage

	cfg      *Config
	wiring   platform.Wiring
	operator *crowd.Session
	audit    *audit.Promotions
	first    *burst
	lottery  *burst
	draw     observedDraw
}

// Run runs the demo on the checkout's platform.
func Run(ctx context.Context, cfg *Config, layout platform.Layout) error {
	wiring := layout.Wiring(platform.Secrets{})
	r := &run{Stage: demo.NewStage(layout.GatewayURL()), cfg: cfg, wiring: wiring, audit: audit.OpenPromotions(wiring)}
	defer r.Close()
	r.operator = r.API.NewSession()
	return demo.Run(ctx, r, cfg.Break, layout.State("demo-promo"))
}

// Play runs both promotions. It returns when every request has a result, or if nothing gets settled
// for as long as the limit.
func (r *run) Play(ctx context.Context) error {
	if err := r.operator.DevLogin(ctx, "promotions-operator", "admin"); err != nil {
		return err
	}
	r.first, r.lottery = newBurst("first come", r.cfg.Applicants), newBurst("lottery", r.cfg.Applicants)
	for _, b := range []*burst{r.first, r.lottery} {
		if err := b.signIn(ctx, r.API); err != nil {
			return err
		}
	}
	defer r.Begin(demo.ProgressBar{Name: "answered", Total: 2 * r.cfg.Applicants}, demo.ProgressBar{Name: "settled", Total: 2 * r.cfg.Applicants})()
	if err := r.open(ctx); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.Say("%d apply to the lottery %s with %d places, which closes in %s", r.cfg.Applicants, r.lottery.event, r.cfg.Lottery, r.cfg.Window)
		r.apply(ctx, r.lottery)
		// The lottery goes on until its cutoff meanwhile.
		r.Say("%d apply to the first-come promotion %s with %d places", r.cfg.Applicants, r.first.event, r.cfg.FirstCome)
		r.apply(ctx, r.first)
		if left := time.Until(r.draw.announced); left > 0 {
			r.Say("all have been answered; the result of the lottery is announced in %.0f s", left.Seconds())
		}
	}()
	err := r.watch(ctx, gone)
	<-gone
	return err
}

// open creates the promotions.
func (r *run) open(ctx context.Context) (err error) {
	if r.first.event, err = r.createPromotion(ctx, r.firstComeTerms()); err != nil {
		return err
	}
	terms, cutoff, err := r.lotteryTerms(ctx, r.cfg.Window)
	if err != nil {
		return err
	}
	r.lottery.cutoff, r.draw.announced = cutoff, cutoff.Add(r.cfg.Delay+lead)
	r.draw.due = r.draw.announced
	r.lottery.event, err = r.createPromotion(ctx, terms)
	return err
}

// evidence returns what the demo has done and seen, which the audit compares with the stores.
func (r *run) evidence() audit.PromotionRun {
	return audit.PromotionRun{
		Users: r.lottery.names(), Late: r.lottery.late,
		FirstCome: audit.PromotionOfRun{Name: r.first.name, EventID: r.first.event, Places: r.cfg.FirstCome},
		Lottery:   audit.PromotionOfRun{Name: r.lottery.name, EventID: r.lottery.event, Places: r.cfg.Lottery},
		Receipts:  r.lottery.receipts, Earlier: r.draw.earlier, Read: r.readPublic, Violations: r.Tally.Violations(),
	}
}

func (r *run) InjectFault(ctx context.Context, fault string) error {
	return r.audit.InjectFault(ctx, fault, r.evidence())
}

// Judge computes the verdict from the stores and the draw's public document.
func (r *run) Judge(ctx context.Context) (audit.PromotionVerdict, audit.Findings, error) {
	return r.audit.Judge(ctx, r.evidence())
}

func (r *run) Report(_ context.Context, v audit.PromotionVerdict) (*demo.Report, error) {
	receipts := len(r.lottery.receipts)
	return &demo.Report{
		Title: "URR demo of promotions", Heading: fmt.Sprintf("%d applications, %d first come, %d drawn", v.Expected, v.Places, v.Winners),
		Summary: fmt.Sprintf("Promotions %s (first come) and %s (lottery), %.0f s; every tenth applied twice. The draw is at /api/v1/draws/%s.",
			r.first.event, r.lottery.event, r.Ended().Sub(r.Began()).Seconds(), r.lottery.event),
		Plots: []demo.Plot{{
			Title: "Requests", Text: "Requests that were accepted, and those with a result. A lottery's results come at its announcement.",
			Lines: []demo.PlotLine{{Name: "accepted", Color: demo.Blue}, {Name: "settled", Color: demo.Green}},
		}},
		Counts: demo.NumberTable{
			Title: "What the applicants were answered", Name: "what", Number: "number",
			Rows: []demo.NamedNumber{{Name: "receipts of the lottery", N: int64(receipts)}, {Name: "too late for the lottery", N: int64(v.Late)}},
		},
		Details: map[string]any{"first_come_id": r.first.event, "lottery_id": r.lottery.event, "receipts": receipts},
	}, nil
}
