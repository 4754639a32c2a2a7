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

var signIns = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_sign_ins_total", Help: "Sign-ins at the identity provider, by outcome.",
}, []string{"outcome"})
