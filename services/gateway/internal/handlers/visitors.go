package handlers

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
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
	Name: "urr_new_visitors_total", Help: "Visitors counted as new ones of their network: for the first time (none), again (counted), with an expired id.",
}, []string{"id"})

// VisitorIDs issues the ids of visitors (cookie urr-anon). It is safe for concurrent use.
type VisitorIDs struct {
	Tokens  *identity.Verifier
	Cookies identity.Cookies
	Limits  *limit.Limiter
}

// Issue gives an id to a visitor who waits for a start: a counted one, or beyond the limit of the
// network an uncounted one. It replaces that later, and does not count it: else one could make
// many, and have only the best ones counted.
func (v *VisitorIDs) Issue(ctx context.Context, w http.ResponseWriter, q *edge.Request) error {
	if !v.expired(q.Visitor) && wasCounted(q.Visitor) {
		return nil
	}
	err := v.count(ctx, w, q, v.renewed(q.Visitor))
	if errors.Is(err, errs.ErrRateLimited) {
		v.IssueUncounted(w, q)
		return nil
	}
	return err
}

// IssueUncounted gives an id to a visitor without one, from memory. The visitor is counted as a new one
// of its network when it asks for a position, and is late at every start until then (turnOf).
func (v *VisitorIDs) IssueUncounted(w http.ResponseWriter, q *edge.Request) {
	if !v.expired(q.Visitor) {
		return
	}
	id := v.renewed(q.Visitor)
	v.set(w, id)
	q.Visitor, q.VisitorID = id, id.String()
}

// expired reports whether a visitor has no id that gets new positions.
func (v *VisitorIDs) expired(id claims.Anon) bool {
	return id.ID == uuid.Nil || v.Cookies.Now().Sub(id.Issued) >= idLife
}

// renewed returns a new id in place of one, or of none. Positions of the former id stay the
// visitor's.
func (v *VisitorIDs) renewed(id claims.Anon) claims.Anon {
	next := claims.NewAnon(v.Cookies.Now())
	next.Counted, next.Former = neverCounted, id.ID
	if !wasCounted(id) {
		next.Former = id.Former // the id has no positions
	}
	return next
}

// neverCounted is when an id was counted that never was.
var neverCounted = time.Unix(0, 0)

func wasCounted(id claims.Anon) bool { return id.Counted.After(neverCounted) }

func (v *VisitorIDs) set(w http.ResponseWriter, id claims.Anon) {
	v.Cookies.Set(w, identity.AnonCookie, v.Tokens.SealVisitor(id), v.Cookies.Now().Add(identity.AnonLife))
}

// CountForPosition counts a visitor who asks for a new position as a new visitor of the network, so
// that ids collected before a sale are worth no more than new ones. It sets which proof of work the
// visitor owes. A visitor without an id, or whose id has expired, gets a new one. It must be called
// after all other checks, so that refused requests are not counted.
func (v *VisitorIDs) CountForPosition(ctx context.Context, w http.ResponseWriter, q *edge.Request) error {
	id := q.Visitor
	if v.expired(id) {
		id = v.renewed(id)
	}
	return v.count(ctx, w, q, id)
}

// count makes id the visitor's, and counts it unless it was counted within countLife.
func (v *VisitorIDs) count(ctx context.Context, w http.ResponseWriter, q *edge.Request, id claims.Anon) error {
	now := v.Cookies.Now()
	if now.Sub(id.Counted) >= countLife {
		owes, err := v.Limits.CountNewVisitor(ctx, q.Address)
		if err != nil {
			return err
		}
		shown := "counted"
		switch {
		case !wasCounted(q.Visitor):
			shown = "none"
		case id.ID != q.Visitor.ID:
			shown = "expired"
		}
		id.Counted, id.Owes = now, uint8(min(owes, math.MaxUint8)) //nolint:gosec // fits
		visitorsCounted.WithLabelValues(shown).Inc()
		v.set(w, id)
	}
	q.Visitor, q.VisitorID, q.Owes = id, id.String(), v.Limits.OwedBits(int(id.Owes))
	return nil
}
