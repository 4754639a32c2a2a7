package session

import "urr.guru/pkg/telemetry"

// Outcomes of a sign-in at the identity provider. The sign-in page has a sentence for each failure.
const (
	outcomeDone        = "done"
	outcomeExpired     = "expired"
	outcomeRefused     = "refused"
	outcomeInvalid     = "invalid"
	outcomeUnavailable = "unavailable"
)

var signIns = telemetry.CounterOf("urr_sign_ins_total", "Sign-ins at the identity provider, by outcome.", "outcome",
	outcomeDone, outcomeExpired, outcomeRefused, outcomeInvalid, outcomeUnavailable)
