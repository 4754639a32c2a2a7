// Package promo is the demo of promotions. A crowd applies to a first-come promotion, another to a
// lottery, both through the gateway, and some apply twice. The verdict is read from the table, from
// the topic of results and from the draw's public document only.
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

// Options of a run.
type Options struct {
	// Applicants apply to each of the two promotions, for that many places.
	Applicants, FirstCome, Lottery int
	// Window is the time in which the lottery takes applications; 0: what the first burst needs,
	// three times.
	Window time.Duration
	// Delay is the time from the cutoff to the beacon's round. The root is made some seconds after
	// the cutoff and must be public for a minute.
	Delay time.Duration
	// Lead is the time from the delay's end to the announcement.
	Lead time.Duration
	// Limit bounds the time in which requests may be unsettled after a burst, and after the
	// announcement.
	Limit time.Duration
}

// Platform is where a demo runs.
type Platform struct {
	API      *crowd.API
	Recorder *crowd.Recorder
	// Wiring has the addresses of the stores, of the topic and of the beacon.
	Wiring platform.Wiring
}

// Demo is one run.
type Demo struct {
	opts     Options
	on       Platform
	operator *crowd.Session
	audit    *audit.Promotions
	first    *burst
	lottery  *burst
	draw     draw
	began    time.Time
	took     time.Duration
	samples  []Sample
}

// New prepares a run.
func New(opts Options, on Platform) *Demo {
	return &Demo{opts: opts, on: on, operator: on.API.NewSession(), audit: audit.OpenPromotions(on.Wiring)}
}

// Play runs both promotions, and returns when every request has a result or the limit has passed.
func (d *Demo) Play(ctx context.Context) error {
	if err := d.operator.DevLogin(ctx, "promotions-operator", "admin"); err != nil {
		return err
	}
	d.first, d.lottery = newBurst("first come", d.opts.Applicants), newBurst("lottery", d.opts.Applicants)
	for _, b := range []*burst{d.first, d.lottery} {
		if err := b.signIn(ctx, d.on.API); err != nil {
			return err
		}
	}
	d.began = time.Now()
	progress := demo.NewProgress(demo.Bar{Name: "applied", Total: 2 * d.opts.Applicants}, demo.Bar{Name: "settled", Total: 2 * d.opts.Applicants})
	defer progress.Close()
	err := d.play(ctx, progress)
	d.took = time.Since(d.began)
	return err
}

func (d *Demo) play(ctx context.Context, progress *demo.Progress) (err error) {
	say := func(format string, args ...any) {
		progress.Say("%4.0f s  %s", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
	}
	if d.first.event, err = d.open(ctx, d.firstCome()); err != nil {
		return err
	}
	say("%d apply to the first-come promotion %s with %d places", d.opts.Applicants, d.first.event, d.opts.FirstCome)
	started := time.Now()
	if err := d.run(ctx, d.first, progress); err != nil {
		return err
	}
	window := d.opts.Window
	if window == 0 {
		window = max(minWindow, 3*time.Since(started))
	}
	terms, cutoff, err := d.lotteryTerms(ctx, window)
	if err != nil {
		return err
	}
	if d.lottery.event, err = d.open(ctx, terms); err != nil {
		return err
	}
	say("%d apply to the lottery %s with %d places; its cutoff is in %.0f s", d.opts.Applicants, d.lottery.event, d.opts.Lottery, window.Seconds())
	if err := d.run(ctx, d.lottery, progress); err != nil {
		return err
	}
	d.draw.announced = cutoff.Add(d.opts.Delay + d.opts.Lead)
	say("the applications are in; the result is announced in %.0f s", time.Until(d.draw.announced).Seconds())
	return d.awaitDraw(ctx, progress, say)
}

// minWindow is the least time in which a lottery takes applications.
const minWindow = 20 * time.Second
