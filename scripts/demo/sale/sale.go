// Package sale is the sale demo: a crowd of visitors buys all seats of an event, then the stores
// are audited. Without access to the stores, only what the visitors saw is audited.
package sale

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
)

// discardLogger discards the logs of the Redis client, which would disturb the progress bars. The
// audit reports unavailable stores itself.
type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}

// maxPaymentAttempts is the maximum number of valid cards that a visitor tries. One is not enough:
// a charge that fails while a store is unavailable is reported as declined.
const maxPaymentAttempts = 3

// run is one run of the sale demo.
type run struct {
	*demo.Stage

	cfg       *Config
	url       string // the gateway's URL
	auditor   audit.SaleJudge
	sale      crowd.Sale
	crowd     *crowd.Crowd
	cancelled *cancelledSale
	cheats    *crowd.Cheats
	thieves   *crowd.Thieves
	samples   []audit.SaleNumbers
	soldOut   soldOutClock
}

// Run runs the demo on the checkout's platform, or on the one whose gateway is at cfg.URL.
func Run(ctx context.Context, cfg *Config, layout platform.Layout) error {
	redis.SetLogger(discardLogger{})
	r := &run{cfg: cfg, url: cfg.URL, sale: cfg.sale()}
	if r.url == "" {
		r.url = layout.GatewayURL()
	}
	r.Stage = demo.NewStage(r.url)
	defer r.Close()
	wiring := cfg.storesWiring(layout.Wiring(platform.Secrets{}))
	after := &crowd.AfterSale{ProviderURL: wiring.SandboxURL}
	r.crowd = crowd.New(r.sale, r.API, crowd.Options{
		Visitors: cfg.Visitors, Arrive: cfg.Arrive, Seed: cfg.Seed, MaxPaymentAttempts: maxPaymentAttempts, AfterSale: after,
		Door: func(ctx context.Context) error { return r.sale.OpenDoor(ctx, r.API, operator, cfg.Visitors) },
	})
	r.cancelled = newCancelled(r.sale, r.API, after, cfg.Seed)
	r.cheats = crowd.NewCheats(r.sale, r.API, *after, cfg.Seed)
	r.thieves = crowd.NewThieves(r.crowd, cfg.Thieves)
	if cfg.withoutStores() {
		r.auditor = &audit.PublicSale{Visitor: crowd.NewAPI(r.url, crowd.NewRecorder()).NewSession(), EventID: r.sale.EventID}
	} else {
		stores, err := audit.Open(ctx, wiring)
		if err != nil {
			return fmt.Errorf("%w; is the platform up (make up)?", err)
		}
		defer stores.Close()
		patience := audit.OutageWait{Limit: cfg.AwayLimit, Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
		r.auditor = &audit.SaleInStores{
			Stores: stores, EventID: r.sale.EventID, CancelledID: r.cancelled.sale.EventID, CheatsID: r.cheats.Sale().EventID, Patience: patience,
		}
	}
	return demo.Run(ctx, r, cfg.Break, layout.State("demo"))
}

// Play runs the visitors and waits until no request is in progress any more. If the run is
// interrupted, it closes the sales.
func (r *run) Play(ctx context.Context) error {
	err := r.play(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return r.closeSale(ctx)
	case err != nil:
		return err
	}
	return r.auditor.Settle(ctx)
}

// operator is the user who opens, cancels and closes the sales.
const operator = "crowd-operator"

// closeLimit is the time limit of the cleanup after an interrupted run.
const closeLimit = 10 * time.Second

// closeSale closes the sales of an interrupted run, since nobody watches them any more.
func (r *run) closeSale(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	for _, sale := range []crowd.Sale{r.sale, r.cancelled.sale, r.cheats.Sale()} {
		if err := sale.Close(ctx, r.API, operator); err != nil {
			return fmt.Errorf("%w; %s stays open: %w", demo.ErrInterrupted, sale.EventID, err)
		}
	}
	return fmt.Errorf("%w; %s is closed, the platform runs on (make status, make down)", demo.ErrInterrupted, r.sale.EventID)
}

// play opens the sales, runs the visitors while it takes samples, and cancels the small sale.
func (r *run) play(ctx context.Context) error {
	if err := r.auditor.Begin(ctx); err != nil {
		return err
	}
	if err := r.openSales(ctx); err != nil {
		return fmt.Errorf("%w; is the platform up at %s (make up)?", err, r.url)
	}
	fmt.Printf("%d visitors come for %d seats of %s: %d let through a second, %d inside at once (seed %d)\n",
		r.cfg.Visitors, r.cfg.Seats, r.sale.EventID, r.cfg.Rate, r.cfg.Threshold, r.cfg.Seed)

	limited, cancel := context.WithTimeout(ctx, r.cfg.Limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(limited)
	end := r.Begin(demo.ProgressBar{Name: "arrived", Total: r.cfg.Visitors}, demo.ProgressBar{Name: "served", Total: r.cfg.Visitors},
		demo.ProgressBar{Name: "sold", Total: r.cfg.Seats}, demo.ProgressBar{Name: "gone", Total: r.cfg.Visitors})
	var watch, small sync.WaitGroup
	watch.Go(func() { r.watch(watching, r.API.NewSession()) })
	small.Go(func() { r.cancelled.crowd.Run(limited) })
	small.Go(func() { r.cheats.Run(limited) })
	honestGone := make(chan struct{})
	small.Go(func() { r.thieves.Run(limited, honestGone) })
	r.crowd.Run(limited)
	close(honestGone)
	small.Wait()
	stopWatching()
	watch.Wait()
	end()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		fmt.Printf("the run was cut off after %s (LIMIT)\n", r.cfg.Limit)
	}
	admin := r.API.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	return r.cancelled.cancel(ctx, admin)
}

// presaleLasts is how long only members and users on a list may buy. Most visitors have arrived
// before it ends.
const presaleLasts = 20 * time.Second

// openSales sells memberships to some visitors. It then opens the small sales, and the large one
// with a presale for those visitors.
func (r *run) openSales(ctx context.Context) (err error) {
	if r.sale.Presale, err = r.crowd.PreparePresale(ctx, operator, presaleLasts); err != nil {
		return fmt.Errorf("prepare the presale: %w", err)
	}
	if err := r.cheats.Open(ctx, operator); err != nil {
		return fmt.Errorf("prepare the cheats: %w", err)
	}
	for _, sale := range []crowd.Sale{r.cancelled.sale, r.sale} {
		if err := sale.Open(ctx, r.API, operator); err != nil {
			return err
		}
	}
	return nil
}

// sampleEvery is the time between samples. It is so short that they show a tick over the threshold.
const sampleEvery = 250 * time.Millisecond

// watch takes samples of the sale and shows its progress until ctx ends.
func (r *run) watch(ctx context.Context, visitor *crowd.Session) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	outages := audit.OutageDetector{Say: r.Say}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			began := time.Now()
			s, err := r.auditor.ReadNumbers(ctx)
			outages.Record(began, err)
			if err != nil {
				continue // one sample is missing; the verdict does not need each of them
			}
			r.samples = append(r.samples, s)
			r.soldOut.record(r.Elapsed(), s.Sold >= int64(r.cfg.Seats))
			r.AddSample(r.shownValues(s, readServingCounter(ctx, visitor, r.sale.EventID))...)
		}
	}
}

// Names of values in progress bars and plots.
const (
	refunded  = "refunded"
	checkedIn = "checked in"
)

// shownValues returns the values that bars and plots show. Some of them are only in the stores.
func (r *run) shownValues(s audit.SaleNumbers, served int64) []demo.NamedNumber {
	tally := r.crowd.Tally()
	values := []demo.NamedNumber{{Name: "arrived", N: tally.Arrived.Load()}, {Name: "served", N: served}}
	if !r.cfg.withoutStores() {
		values = append(values, demo.NamedNumber{Name: "waiting", N: s.Waiting}, demo.NamedNumber{Name: "parked", N: s.Parked},
			demo.NamedNumber{Name: "active", N: s.Active}, demo.NamedNumber{Name: "held", N: s.Held})
	}
	return append(values, demo.NamedNumber{Name: "sold", N: s.Sold}, demo.NamedNumber{Name: refunded, N: tally.GivenBack.Load() + tally.ByHand.Load()},
		demo.NamedNumber{Name: checkedIn, N: tally.CheckedIn.Load()}, demo.NamedNumber{Name: "gone", N: tally.Gone.Load()})
}

// readServingCounter reads the serving counter of tier 1 from the gateway, as a page does.
func readServingCounter(ctx context.Context, s *crowd.Session, eventID string) int64 {
	var out struct {
		ServingCounter int64 `json:"servingCounter"`
	}
	ans, err := s.Call(ctx, crowd.StepEvent, http.MethodGet, "/vwr-api/vwr/serving/"+eventID, nil, nil)
	if err == nil && ans.OK() {
		_ = json.Unmarshal(ans.Body, &out) // a missing value is shown as 0
	}
	return out.ServingCounter
}

func (r *run) InjectFault(ctx context.Context, fault string) error {
	return r.auditor.InjectFault(ctx, fault)
}

func (r *run) Judge(ctx context.Context) (audit.SaleVerdict, audit.Findings, error) {
	faults := r.cancelled.faults
	if kept := r.thieves.Bought.Load() - r.thieves.GivenBack.Load(); kept != 0 {
		faults = append(faults, fmt.Sprintf("%d places that thieves bought did not come back", kept))
	}
	return audit.JudgeSale(ctx, r.auditor, audit.SaleRun{
		Visitors: r.cfg.Visitors, Seats: r.cfg.Seats, Threshold: r.cfg.Threshold, Tally: r.crowd.Tally(), Samples: r.samples,
		Beside: []*crowd.Tally{r.cancelled.crowd.Tally(), r.cheats.Tally(), r.thieves.Tally()}, Cheats: r.cheats.Tried(), Faults: faults,
	})
}

func (r *run) Report(_ context.Context, v audit.SaleVerdict) (*demo.Report, error) {
	tally := r.crowd.Tally()
	proofs, tried := tally.Proofs.Load(), tally.ForgedTried.Load()
	return &demo.Report{
		Title: "URR demo · " + r.sale.EventID, Heading: fmt.Sprintf("%d visitors for %d seats", v.Visitors, v.Seats),
		Summary: fmt.Sprintf("Sale %s, %.0f s, %d positions served a second, %d inside at once, seed %d. Sold out %s.",
			r.sale.EventID, r.Ended().Sub(r.Began()).Seconds(), r.cfg.Rate, r.cfg.Threshold, r.cfg.Seed, &r.soldOut),
		Outcomes: tally.Outcomes(), Plots: r.plots(),
		Counts: demo.NumberTable{Title: "How the visits ended", Name: "ending", Number: "visits", Rows: []demo.NamedNumber{
			{Name: "requests for positions before the visitor's turn", N: tally.Early.Load()},
			{Name: "proofs of work for positions", N: proofs}, {Name: "attempts with forged, stolen or shared passes", N: tried},
			{Name: "attempts to get something for nothing", N: int64(v.Cheats)},
			{Name: "places that thieves held", N: r.thieves.Held.Load()}, {Name: "places that thieves bought and gave back", N: r.thieves.GivenBack.Load()},
			{Name: "payment pages of thieves who did not pay", N: r.thieves.Pages.Load()}, {Name: "refusals of thieves", N: r.thieves.Refused.Load()},
			{Name: "slots of hoarders after their first", N: tally.Rejoined.Load()},
			{Name: "tickets given back by their buyers", N: tally.GivenBack.Load()}, {Name: "tickets refunded by hand at the provider", N: tally.ByHand.Load()},
			{Name: "tickets given away to others", N: tally.Gifts.Load()}, {Name: "tickets sold to others", N: tally.Resold.Load()},
			{Name: "offers that nobody paid", N: tally.OffersEnded.Load()},
			{Name: "tickets checked in", N: tally.CheckedIn.Load()}, {Name: "scans of used, refunded and former tickets", N: tally.RefusedScans.Load()},
		}},
		Details: map[string]any{
			"event_id": r.sale.EventID, "threshold": r.cfg.Threshold, "rate": r.cfg.Rate, "seed": r.cfg.Seed, "thieves": r.cfg.Thieves, "sold_out_seconds": r.soldOut.seconds(),
			"forged_tried": tried, "proofs": proofs,
		},
	}, nil
}

// plots returns the report's plots. If the stores are not accessible, it leaves out the plots whose
// values only the stores have.
func (r *run) plots() []demo.Plot {
	arrivals := demo.Plot{Title: "Arrivals and serving counter", Text: "Visitors who came, and how many positions of tier 1 have been served.", Lines: []demo.PlotLine{
		{Name: "arrived", Color: demo.Blue}, {Name: "served", Color: demo.Orange},
	}}
	sales := demo.Plot{Title: "Seats sold and held over time", Text: "The sale ends at the number of seats.", Lines: []demo.PlotLine{
		{Name: "sold", Color: demo.Green}, {Name: "held", Color: demo.Orange}, {Name: "seats", Color: demo.Red, Level: float64(r.cfg.Seats)},
	}}
	tickets := demo.Plot{Title: "Tickets refunded and checked in", Text: "Seats of refunded tickets are sold again.", Lines: []demo.PlotLine{
		{Name: refunded, Color: demo.Orange}, {Name: checkedIn, Color: demo.Blue},
	}}
	if r.cfg.withoutStores() {
		return []demo.Plot{arrivals, sales, tickets}
	}
	return []demo.Plot{
		arrivals,
		{Title: "Tier 2: waiting", Text: "Visitors in the line, and those who are away and keep their place.", Lines: []demo.PlotLine{
			{Name: "waiting", Color: demo.Blue}, {Name: "parked", Color: demo.Orange},
		}},
		{Title: "Tier 2: active against the threshold", Text: "How many are inside; the line must stay under the threshold.", Lines: []demo.PlotLine{
			{Name: "active", Color: demo.Green}, {Name: "threshold", Color: demo.Red, Level: float64(r.cfg.Threshold)},
		}},
		sales, tickets,
	}
}
