package app

import (
	"time"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

// Rekey replaces the secrets, like a change of their files.
func (g *Gateway) Rekey(cfg *Config) error { return g.rekey(cfg) }

// ConfirmTimeout is the time limit of the slowest request.
var ConfirmTimeout = passThroughDetails[paymentv1.PaymentService_Confirm_FullMethodName].Timeout

// Server returns the HTTP server of a handler.
var Server = newServer

// ReadSeatsEvery sets the time between two reads of an event whose changes are streamed.
func (g *Gateway) ReadSeatsEvery(d time.Duration) { g.changes.Interval = d }
