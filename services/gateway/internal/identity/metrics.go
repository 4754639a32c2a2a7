package identity

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/token"
)

// Kinds of credentials.
const (
	kindSession = "session"
	kindAnon    = "anon"
	kindTier1   = "tier1"
	kindTicket  = "ticket"
	kindEntry   = "entry"
)

// Reasons for a refusal. Expired tokens are common. The other reasons occur only after a change of
// keys, with a ticket of another event, or with forgeries.
const (
	reasonExpired  = "expired"
	reasonAudience = "audience"
	reasonInvalid  = "invalid"
	reasonRevoked  = "revoked"
)

var (
	refusals = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_token_refusals_total", Help: "Tokens, tickets and visitors' cookies that did not verify, by kind and reason.",
	}, []string{"kind", "reason"})
	verified = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_token_verifications_total", Help: "Tokens whose signature was checked, as they were not in the cache.",
	}, []string{"kind"})
)

func countRefusal(kind, reason string) { refusals.WithLabelValues(kind, reason).Inc() }

func refusalReason(err error) string {
	switch {
	case errors.Is(err, token.ErrExpired):
		return reasonExpired
	case errors.Is(err, token.ErrAudience):
		return reasonAudience
	default:
		return reasonInvalid
	}
}
