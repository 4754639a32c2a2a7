package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

const (
	measureEvery   = 10 * time.Second
	measureTimeout = 5 * time.Second
)

//nolint:gochecknoglobals // metrics are registered once per process
var (
	dueGauge        = telemetry.Gauge("urr_rewards_due_oldest_seconds", "How long the oldest reward is due that nobody pays; 0: nothing is due.", "kind")
	unknownGauge    = telemetry.Gauge("urr_rewards_unknown", "Rewards of which a call may have paid, without those that are held; 100000 stands for more too.", "kind")
	unknownAgeGauge = telemetry.Gauge("urr_rewards_unknown_oldest_seconds", "How long the oldest of them has been unknown.", "kind")
	failingGauge    = telemetry.Gauge("urr_rewards_failing_oldest_seconds", "How long the reward that has failed longest has been tried again.", "kind")
	heldGauge       = telemetry.Gauge("urr_rewards_held", "Rewards that an operator must resolve; 100000 stands for more too.", "kind")
	unpaidGauge     = telemetry.Gauge("urr_rewards_unpaid", "Rewards that were given up and that nobody has retried or cancelled; 100000 stands for more too.", "kind")
	lapsedGauge     = telemetry.Gauge("urr_rewards_leases_lapsed", "Rewards whose worker is gone and which no other has taken over yet.", "kind")
	recoveredGauge  = telemetry.Gauge("urr_rewards_recovered", "Rewards that are being paid after an earlier worker died with them.", "kind")
	pausedGauge     = telemetry.Gauge("urr_reward_paused", "1 while an operator has paused the payouts of a kind.", "kind")
)

// BacklogWorker returns the worker that updates the gauges. All replicas report the same values.
func (d *Database) BacklogWorker(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, measureEvery, log, "backlog not measured", d.readGauges)
	}
}

func (d *Database) readGauges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	var kinds []string
	for _, k := range payout.Kinds() {
		kinds = append(kinds, string(k))
	}
	rows, err := d.q.Backlog(ctx, db.BacklogParams{Kinds: kinds, Now: d.now()})
	if err != nil {
		return postgres.Err(err)
	}
	for _, r := range rows {
		paused := 0.0
		if r.Paused {
			paused = 1
		}
		for g, value := range map[*prometheus.GaugeVec]float64{
			dueGauge: r.DueSeconds, unknownGauge: float64(r.Unknown), unknownAgeGauge: r.UnknownSeconds, heldGauge: float64(r.Held),
			failingGauge: r.FailingSeconds, unpaidGauge: float64(r.Unpaid),
			lapsedGauge: float64(r.Lapsed), recoveredGauge: float64(r.Recovered), pausedGauge: paused,
		} {
			g.WithLabelValues(r.Kind).Set(value)
		}
	}
	return nil
}
