package handlers

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
)

const (
	// countLife is the time in which a visitor is counted only once. It is longer than a challenge is
	// valid, so that a visitor who does the work is counted once.
	countLife = 10 * time.Minute
	// idLife is how long a visitor can get new positions with an id. The cookie lasts longer, for the
	// positions that the id has.
	idLife = 24 * time.Hour
)

var visitorsCounted = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_new_visitors_total", Help: "Visitors counted as new ones of their network, by the id that they showed.",
}, []string{"id"})

// VisitorIDs issues the ids of visitors (cookie urr-anon). It is safe for concurrent use.
type VisitorIDs struct {
	Tokens  *identity.Verifier
	Cookies identity.Cookies
	Limits  *limit.Limiter
}

// Issue gives an id to a visitor without one.
func (v *VisitorIDs) Issue(ctx context.Context, w http.ResponseWriter, q *edge.Request) error {
	if q.VisitorID != "" {
		return nil
	}
	return v.CountForPosition(ctx, w, q)
}

// IssueUncounted gives an id to a visitor without one, from memory. The visitor is counted as a new one
// of its network when it asks for a position.
func (v *VisitorIDs) IssueUncounted(w http.ResponseWriter, q *edge.Request) {
	if q.VisitorID != "" {
		return
	}
	id := claims.NewAnon(v.Cookies.Now())
	id.Counted = time.Unix(0, 0)
	v.set(w, id)
	q.Visitor, q.VisitorID = id, id.String()
}

func (v *VisitorIDs) set(w http.ResponseWriter, id claims.Anon) {
	v.Cookies.Set(w, identity.AnonCookie, v.Tokens.SealVisitor(id), v.Cookies.Now().Add(identity.AnonLife))
}

// CountForPosition counts a visitor who asks for a new position as a new visitor of the network, so
// that ids collected before a sale are worth no more than new ones. It sets which proof of work the
// visitor owes. A visitor without an id, or whose id has expired, gets a new one. It must be called
// after all other checks, so that refused requests are not counted.
func (v *VisitorIDs) CountForPosition(ctx context.Context, w http.ResponseWriter, q *edge.Request) error {
	now := v.Cookies.Now()
	id, shown := q.Visitor, "none"
	expired := id.ID == uuid.Nil || now.Sub(id.Issued) >= idLife
	if expired || now.Sub(id.Counted) >= countLife {
		owes, err := v.Limits.CountNewVisitor(ctx, q.Address)
		if err != nil {
			return err
		}
		counted := claims.NewAnon(now)
		switch {
		case !expired:
			shown = "counted"
			counted.ID, counted.Issued, counted.Former = id.ID, id.Issued, id.Former
		case id.ID != uuid.Nil:
			shown = "expired"
			counted.Former = id.ID
		}
		counted.Owes = uint8(min(owes, math.MaxUint8)) //nolint:gosec // fits
		visitorsCounted.WithLabelValues(shown).Inc()
		v.set(w, counted)
		id = counted
	}
	q.Visitor, q.VisitorID, q.Owes = id, id.String(), v.Limits.OwedBits(int(id.Owes))
	return nil
}
