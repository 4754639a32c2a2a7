package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// stateCollector exports the cached counters of rooms whenever Prometheus scrapes the process. To
// limit the number of labels, it exports only active events.
type stateCollector struct {
	cache    *room.StateCache
	advancer *room.Advancer
	driver   *lobby.Driver
}

var (
	eventLabel     = []string{"event"}
	serving        = prometheus.NewDesc("urr_vwr_serving", "The last position served.", eventLabel, nil)
	issued         = prometheus.NewDesc("urr_vwr_issued", "Positions given out.", eventLabel, nil)
	waiting        = prometheus.NewDesc("urr_vwr_waiting", "Positions given out and not served.", eventLabel, nil)
	claimed        = prometheus.NewDesc("urr_vwr_claimed", "Served positions whose visitor came.", eventLabel, nil)
	rate           = prometheus.NewDesc("urr_vwr_rate", "Measured positions per second; 0 until measured.", eventLabel, nil)
	configuredRate = prometheus.NewDesc("urr_vwr_configured_rate", "Configured positions per second.", eventLabel, nil)
	askRate        = prometheus.NewDesc("urr_vwr_ask_rate", "Planned requests for positions per second.", eventLabel, nil)
	tierTwoFull    = prometheus.NewDesc("urr_vwr_tier2_full",
		"1 while the inlet MAX_IN_FLIGHT serves nobody since tier 2 is full; 0 with any other inlet.", eventLabel, nil)
	asking = prometheus.NewDesc("urr_vwr_asking",
		"1 while the entrants of a shuffled lobby ask for their positions, each at an own time, so that nobody is served yet.", eventLabel, nil)
	advances = prometheus.NewDesc("urr_vwr_advances_total",
		"This replica's writes of serving counters: won, lost to another replica, failed.", []string{"result"}, nil)
	claimsMissed = prometheus.NewDesc("urr_vwr_claims_missed_total",
		"Reads of claims that failed: the event's share of claimed positions stays as it was.", nil, nil)
	lobbyEntries = prometheus.NewDesc("urr_vwr_lobby_entries", "Entries of an unfinished lobby.", eventLabel, nil)
	lobbyLate    = prometheus.NewDesc("urr_vwr_lobby_late_seconds",
		"Seconds since the start of a room whose lobby is not shuffled, so that nobody is served; 0 before the start.", eventLabel, nil)
	drawKeyMissing = prometheus.NewDesc("urr_vwr_lobby_key_missing",
		"1 while an unfinished lobby names a key of draws that this replica lacks.", eventLabel, nil)
	lobbyVoid = prometheus.NewDesc("urr_vwr_lobby_void",
		"1 while a room is open whose lobby is void, since positions were issued too early; nobody is served.", eventLabel, nil)
	lobbyFailures  = prometheus.NewDesc("urr_vwr_lobby_failures_total", "Steps of lobbies that failed and are tried again.", nil, nil)
	beaconFailures = prometheus.NewDesc("urr_vwr_beacon_failures_total", "Values of beacons that no source returned.", nil, nil)
	fallbacks      = prometheus.NewDesc("urr_vwr_load_fallbacks_total",
		"Steps that went by the rate because queue did not say how full tier 2 is.", nil, nil)
)

// registerMetrics registers a stateCollector with Prometheus. The returned function unregisters it.
func registerMetrics(sc *room.StateCache, a *room.Advancer, d *lobby.Driver) (func(context.Context) error, error) {
	f := &stateCollector{cache: sc, advancer: a, driver: d}
	if err := prometheus.Register(f); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return func(context.Context) error {
		prometheus.Unregister(f)
		return nil
	}, nil
}

func (f *stateCollector) Describe(out chan<- *prometheus.Desc) {
	// Unregister identifies a collector by its descriptors, so list all of them.
	for _, d := range []*prometheus.Desc{
		serving, issued, waiting, claimed, rate, configuredRate, askRate, tierTwoFull, asking, advances, claimsMissed, fallbacks,
		lobbyEntries, lobbyLate, drawKeyMissing, lobbyVoid, lobbyFailures, beaconFailures,
	} {
		out <- d
	}
}

func (f *stateCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, event string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, event)
	}
	for _, st := range f.cache.All() {
		if !st.Active {
			continue
		}
		gauge(serving, float64(st.Serving), st.EventID)
		gauge(issued, float64(st.Issued), st.EventID)
		gauge(waiting, float64(st.Waiting()), st.EventID)
		gauge(claimed, float64(st.Claimed), st.EventID)
		gauge(rate, st.Rate, st.EventID)
		gauge(configuredRate, st.Settings.Rate(), st.EventID)
		gauge(askRate, float64(st.Settings.AskRate), st.EventID)
		gauge(tierTwoFull, gaugeValue(f.advancer.TierTwoFull(st.EventID)), st.EventID)
		gauge(asking, gaugeValue(st.Lobby.Shuffled && !st.Serves(time.Now())), st.EventID)
	}
	f.collectLobbies(out)
	stats := f.advancer.Stats()
	for result, n := range map[string]int64{
		"won": stats.Won.Load(), "lost": stats.Lost.Load(), "failed": stats.Failed.Load(),
	} {
		out <- prometheus.MustNewConstMetric(advances, prometheus.CounterValue, float64(n), result)
	}
	out <- prometheus.MustNewConstMetric(claimsMissed, prometheus.CounterValue, float64(stats.ClaimsMissed.Load()))
	out <- prometheus.MustNewConstMetric(fallbacks, prometheus.CounterValue, float64(stats.Fallbacks.Load()))
}

func (f *stateCollector) collectLobbies(out chan<- prometheus.Metric) {
	latest := make(map[string]lobby.Key) // only the latest round of an event is exported
	progress := f.driver.Progress()
	for k := range progress {
		if k.Round > latest[k.EventID].Round {
			latest[k.EventID] = k
		}
	}
	for event, k := range latest {
		p := progress[k]
		for d, v := range map[*prometheus.Desc]float64{
			lobbyEntries: float64(p.Joined), lobbyLate: p.Late.Seconds(), drawKeyMissing: gaugeValue(p.KeyMissing), lobbyVoid: gaugeValue(p.Void),
		} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, event)
		}
	}
	stats := f.driver.Stats()
	out <- prometheus.MustNewConstMetric(lobbyFailures, prometheus.CounterValue, float64(stats.Failures.Load()))
	out <- prometheus.MustNewConstMetric(beaconFailures, prometheus.CounterValue, float64(stats.BeaconFailures.Load()))
}

func gaugeValue(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
