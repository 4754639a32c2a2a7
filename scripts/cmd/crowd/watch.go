package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// sampleEvery is short enough to detect a threshold exceeded for one tick.
const sampleEvery = 250 * time.Millisecond

// watch samples the sale and shows the progress until ctx ends.
func (d *saleDemo) watch(ctx context.Context, visitor *crowd.Session) {
	show := d.newProgress()
	defer show.Close()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	start := time.Now()
	absence := audit.Outage{Say: show.Say}
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
			d.show(show, s, d.crowd.Tally())
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

func (d *saleDemo) newProgress() *demo.Progress {
	return demo.NewProgress(demo.Bar{Name: "arrived", Total: d.cfg.Visitors}, demo.Bar{Name: "served", Total: d.cfg.Visitors},
		demo.Bar{Name: "sold", Total: d.cfg.Seats}, demo.Bar{Name: "gone", Total: d.cfg.Visitors})
}

func (d *saleDemo) show(p *demo.Progress, s audit.Sample, t *crowd.Tally) {
	inside := ""
	if !d.cfg.withoutStores() {
		inside = fmt.Sprintf("  waiting %d  active %d", s.Waiting, s.Active)
	}
	gone := t.Gone.Load()
	line := fmt.Sprintf("%4.0f s  arrived %d  served %d%s  sold %d  gone %d", s.Seconds, s.Arrived, s.Serving, inside, s.Sold, gone)
	p.Update(line, s.Arrived, s.Serving, s.Sold, gone)
}
