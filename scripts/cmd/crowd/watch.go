package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
)

const (
	// sampleEvery is short enough to detect a threshold exceeded for one tick.
	sampleEvery = 250 * time.Millisecond
	// sayEvery is the interval of progress lines when there is no terminal.
	sayEvery = 5 * time.Second
)

// watch samples the sale and shows the progress until ctx ends.
func (d *demo) watch(ctx context.Context, visitor *crowd.Session) {
	show := d.newProgress()
	defer show.close()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	start := time.Now()
	absence := audit.Outage{Say: show.say}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			began := time.Now()
			s, err := d.auditor.sample(ctx)
			absence.Note(began, err)
			if err != nil {
				continue // a missed sample; the final verdict does not depend on it
			}
			s.Seconds = time.Since(start).Seconds()
			s.Arrived = d.crowd.Tally().Arrived.Load()
			s.Serving = serving(ctx, visitor, d.sale.EventID)
			d.series.Add(s)
			show.update(s, d.crowd.Tally())
		}
	}
}

// serving reads tier 1's counter from the gateway, as a page does.
func serving(ctx context.Context, s *crowd.Session, eventID string) int64 {
	var out struct {
		ServingCounter int64 `json:"servingCounter"`
	}
	ans, err := s.Call(ctx, crowd.StepEvent, http.MethodGet, "/vwr-api/vwr/serving/"+eventID, nil, nil)
	if err == nil && ans.OK() {
		_ = json.Unmarshal(ans.Body, &out) // a missing value is drawn as 0
	}
	return out.ServingCounter
}

// progress shows bars on a terminal and prints lines elsewhere.
type progress struct {
	bars                        *mpb.Progress
	arrived, served, sold, left *mpb.Bar
	lastLine                    time.Time
	out                         io.Writer
	withoutStores               bool // the numbers waiting and inside are unknown
}

func (d *demo) newProgress() *progress {
	p := &progress{out: os.Stdout, withoutStores: d.cfg.withoutStores()}
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return p
	}
	p.bars = mpb.New(mpb.WithWidth(48), mpb.WithOutput(os.Stdout))
	bar := func(name string, total int) *mpb.Bar {
		return p.bars.AddBar(int64(total),
			mpb.PrependDecorators(decor.Name(name, decor.WC{W: 10, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))
	}
	p.arrived = bar("arrived", d.cfg.Visitors)
	p.served = bar("served", d.cfg.Visitors)
	p.sold = bar("sold", d.cfg.Seats)
	p.left = bar("gone", d.cfg.Visitors)
	return p
}

func (p *progress) update(s audit.Sample, t *crowd.Tally) {
	if p.bars != nil {
		p.arrived.SetCurrent(s.Arrived)
		p.served.SetCurrent(s.Serving)
		p.sold.SetCurrent(s.Sold)
		p.left.SetCurrent(t.Gone.Load())
		return
	}
	if time.Since(p.lastLine) < sayEvery {
		return
	}
	p.lastLine = time.Now()
	line := ""
	if !p.withoutStores {
		line = fmt.Sprintf("  waiting %d  active %d", s.Waiting, s.Active)
	}
	fmt.Fprintf(p.out, "%4.0f s  arrived %d  served %d%s  sold %d  gone %d\n", s.Seconds, s.Arrived, s.Serving, line, s.Sold, t.Gone.Load())
}

// say prints a line above the bars.
func (p *progress) say(format string, args ...any) {
	out := p.out
	if p.bars != nil {
		out = p.bars
	}
	fmt.Fprintf(out, format+"\n", args...)
}

func (p *progress) close() {
	if p.bars == nil {
		return
	}
	for _, b := range []*mpb.Bar{p.arrived, p.served, p.sold, p.left} {
		b.Abort(false) // keeps the bar on the screen
	}
	p.bars.Wait()
}
