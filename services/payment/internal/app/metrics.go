package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/payment/internal/payment"
)

var ( //nolint:gochecknoglobals // metrics are registered once per process
	oldestEventAge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_payment_events_oldest_seconds", Help: "Age of the oldest event of a payment that ticket has not settled, here or there.",
	})
	confirmsPaused = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_payment_confirms_paused", Help: "1 while confirmations are refused, since payments are not settled in time.",
	})
	wrongAmounts = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_payment_wrong_amounts_total", Help: "Charges of another amount than was asked for, given back.",
	})
	manualRefunds = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_payment_refunds_by_hand_total", Help: "Refunds that somebody made at the provider, of the whole payment or of a part.",
	}, []string{"extent"})
	unanswered = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_payment_unanswered_ends_total", Help: "Payments that ended although their buyers may have paid on the page: the provider did not answer in time.",
	})
	unknownOrders = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_payment_webhooks_unknown_total", Help: "Webhooks about orders that are not stored here; they change nothing.",
	})
)

func observer() payment.Observer {
	for _, extent := range []string{"part", "whole"} {
		manualRefunds.WithLabelValues(extent) // starts at 0, so that the first refund is an increase
	}
	return payment.Observer{
		Settled: func(oldest time.Duration, refused bool) {
			oldestEventAge.Set(oldest.Seconds())
			confirmsPaused.Set(0)
			if refused {
				confirmsPaused.Set(1)
			}
		},
		WrongAmount:  wrongAmounts.Inc,
		UnknownOrder: unknownOrders.Inc,
		Unanswered:   unanswered.Inc,
		ManualRefund: func(whole bool) {
			extent := "part"
			if whole {
				extent = "whole"
			}
			manualRefunds.WithLabelValues(extent).Inc()
		},
	}
}
