package session

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Outcomes of a sign-in at the identity provider; the sign-in page has a sentence for each failure.
const (
	outcomeDone        = "done"
	outcomeExpired     = "expired"
	outcomeRefused     = "refused"
	outcomeInvalid     = "invalid"
	outcomeUnavailable = "unavailable"
)

var signIns = newSignIns()

// newSignIns shows every outcome from the start: the first failure is then a rise that an alert sees.
func newSignIns() *prometheus.CounterVec {
	counter := promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_sign_ins_total", Help: "Sign-ins at the identity provider, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{outcomeDone, outcomeExpired, outcomeRefused, outcomeInvalid, outcomeUnavailable} {
		counter.WithLabelValues(outcome)
	}
	return counter
}
