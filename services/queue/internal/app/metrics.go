package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/queue/internal/line"
)

// Every replica exports the same gauges for a line: take their maximum. A replica whose last tick
// (admission run) of a line failed exports none for the line, since they would be old.
var ( //nolint:gochecknoglobals // metrics are registered once per process
	waiting        = lineGauge("urr_queue_waiting", "Visitors in the event's queue.")
	waitingGeneral = lineGauge("urr_queue_waiting_general", "Visitors in the event's queue who may enter only when its sale opens to all, after a presale.")
	active         = lineGauge("urr_queue_active", "Visitors who hold a slot of the event.")
	threshold      = lineGauge("urr_queue_threshold", "Maximum number of visitors who hold a slot of the event.")
	kept           = lineGauge("urr_queue_kept", "Slots of the event that are kept for visitors who are late.")
	selling        = lineGauge("urr_queue_selling",
		"1 while the event's sale lets its line admit; 0 before it opens, while it is paused or sold out, and when it is over.")
	paused      = lineGauge("urr_queue_paused", "1 while an operator has paused the event's line.")
	silent      = lineGauge("urr_queue_silent", "1 while no visitor of the event's line has contact, and so nobody is admitted.")
	shopAway    = lineGauge("urr_queue_shop_away", "1 while ticket does not answer, and so nobody is admitted to the event's sale and no slot ends.")
	pendingActs = lineGauge("urr_queue_pending_acts", "Acts of operators on the event's line that are in force, and that ticket has not stored yet.")
	epoch       = lineGauge("urr_queue_epoch_timestamp_seconds", "When the event's epoch began, by Redis's clock.")
	// gauges are those gauges of a line that are removed when a tick of the line fails.
	gauges = []*prometheus.GaugeVec{waiting, waitingGeneral, active, threshold, kept, selling, paused, silent, shopAway, pendingActs, epoch}

	failing = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_queue_failing", Help: "1 while this replica's ticks of the event's line fail; take the minimum, since one replica is enough.",
	}, []string{"event"})
	entitlements = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_queue_entitlements_total",
		Help: "Users about whose entitlement to a presale this replica has asked ticket, by answer: yes, no, or failed.",
	}, []string{"answer"})
	admissions = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_admissions_total", Help: "Slots given out by this replica, by ticks and at once; the sum over replicas is the event's.",
	}, []string{"event"})
)

func lineGauge(name, help string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"event"})
}

var _ line.Meter = prometheusMeter{}

// prometheusMeter exports the figures of lines to Prometheus.
type prometheusMeter struct{}

func (prometheusMeter) SetFigures(eventID string, f line.Figures) {
	for gauge, value := range map[*prometheus.GaugeVec]float64{
		waiting: float64(f.Waiting), waitingGeneral: float64(f.WaitingGeneral), active: float64(f.Active), threshold: float64(f.Threshold), kept: float64(f.Kept),
		selling: gaugeValue(f.Selling), paused: gaugeValue(f.Paused), silent: gaugeValue(f.Silent), shopAway: gaugeValue(f.Away),
		pendingActs: float64(f.Pending), epoch: float64(f.Epoch) / 1e6, failing: 0,
	} {
		gauge.WithLabelValues(eventID).Set(value)
	}
	admissions.WithLabelValues(eventID) // creates the counter at 0, so that the first admission counts
}

func gaugeValue(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func (prometheusMeter) RecordTickFailure(eventID string) {
	for _, gauge := range gauges {
		gauge.DeleteLabelValues(eventID)
	}
	failing.WithLabelValues(eventID).Set(1)
}

func (prometheusMeter) AddAdmissions(eventID string, n int64) {
	if n > 0 {
		admissions.WithLabelValues(eventID).Add(float64(n))
	}
}

func (prometheusMeter) AddEntitlementAnswers(entitled []bool, asked int) {
	if len(entitled) != asked {
		entitlements.WithLabelValues("failed").Add(float64(asked))
		return
	}
	for _, yes := range entitled {
		entitlements.WithLabelValues(map[bool]string{true: "yes", false: "no"}[yes]).Inc()
	}
}

func (prometheusMeter) ForgetLine(eventID string) {
	for _, gauge := range gauges {
		gauge.DeleteLabelValues(eventID)
	}
	failing.DeleteLabelValues(eventID)
	admissions.DeleteLabelValues(eventID)
}
