package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/readcache"
	"urr.guru/pkg/rpc/batchrpc"
	"urr.guru/pkg/spread"
	"urr.guru/services/gateway/internal/edge"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// Values of Retry-After in seconds: when a client should first ask for the status of its
// application. The result of a lottery is not known before its announcement.
const (
	retryFirstCome = "2"
	retryLottery   = "30"
)

const (
	// refusedFor is how long the refusal of a user of a sold-out promotion is cached. In this time the
	// ingest service looks only once for an earlier request of the user.
	refusedFor = time.Minute
	maxRefused = 200_000 // about 30 MB
	openingTTL = time.Second
)

// soldOutUser is a user without a request to a sold-out promotion.
type soldOutUser struct{ event, user string }

// PromotionHandlers accepts applications to promotions.
type PromotionHandlers struct {
	apply   *batch.Groups[string, *ingestv1.ApplyItem, *ingestv1.Applied] // by promotion
	refused *otter.Cache[soldOutUser, error]
	// openings has, by promotion, from when on users may apply, each at an own time.
	openings *readcache.Cache[string, spread.Instant]
	now      func() time.Time
}

// NewPromotionHandlers makes the handler of applications.
func NewPromotionHandlers(ingest ingestv1.IngestServiceClient, now func() time.Time) (*PromotionHandlers, error) {
	refused, err := otter.New(&otter.Options[soldOutUser, error]{
		MaximumSize: maxRefused, ExpiryCalculator: otter.ExpiryWriting[soldOutUser, error](refusedFor),
	})
	if err != nil {
		return nil, err
	}
	// Like a position, an application is stored before the response, so its time-out is as long.
	return &PromotionHandlers{
		refused: refused, now: now,
		openings: readcache.New(now, openingTTL, maxEvents, func(ctx context.Context, event string) (spread.Instant, error) {
			p, err := ingest.GetPromotion(ctx, &ingestv1.GetPromotionRequest{EventId: event})
			return openingOf(p), err
		}),
		apply: newEventBatches(crowdBatchConfig(assignTimeout), batchrpc.Call(ingest.Apply, func(items []*ingestv1.ApplyItem) *ingestv1.ApplyRequest {
			return &ingestv1.ApplyRequest{Items: items}
		}, (*ingestv1.ApplyResult).GetApplied)),
	}, nil
}

// openingOf returns what the applicants of a promotion wait for: nothing if it takes no applications
// any more, so that they are told so at once.
func openingOf(p *ingestv1.Promotion) spread.Instant {
	if s := p.GetStatus(); s != "Scheduled" && s != "Open" || p.Remaining != nil && p.GetRemaining() == 0 {
		return spread.Instant{}
	}
	start := p.GetOpensAt().AsTime()
	return spread.Instant{Start: start, Over: time.Duration(p.GetSpreadMs()) * time.Millisecond, Round: start.UnixMilli()}
}

// RefusalFromMemory returns the error of a user who got SOLD_OUT within the last minute, or whose time
// to apply has not come, else nil.
func (h *PromotionHandlers) RefusalFromMemory(_ http.ResponseWriter, q *edge.Request) error {
	user := q.User()
	if user == "" {
		return nil
	}
	if err, ok := h.refused.GetIfPresent(soldOutUser{q.EventInPath(), user}); ok {
		return err
	}
	opening, _ := h.openings.Fresh(q.EventInPath()) // if it is not fresh, Apply reads it
	return h.checkTurn(opening, user)
}

// checkTurn fails before the user's time after an opening. Since nobody can make users, all have a time
// within the spread. Without a spread ingest decides who is early.
func (h *PromotionHandlers) checkTurn(opening spread.Instant, user string) error {
	if opening.Over == 0 {
		return nil
	}
	now := h.now()
	if turn := opening.TurnOf(user, time.Time{}); turn.After(now) {
		return askLaterError(opening, turn, now)
	}
	return nil
}

// Apply applies for the user, once per promotion: a repeated call returns the same request.
func (h *PromotionHandlers) Apply(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	opening, _ := h.openings.Get(r.Context(), q.Event) // after an error nothing is known, and ingest decides
	if err := h.checkTurn(opening, q.User()); err != nil {
		return err
	}
	a, err := h.apply.Do(r.Context(), q.Event, &ingestv1.ApplyItem{Caller: q.Caller(), EventId: q.Event})
	if err != nil {
		if errors.Is(err, errs.ErrSoldOut) {
			_, _ = h.refused.Set(soldOutUser{q.Event, q.User()}, err)
		}
		return withRedirect(err, q.Event)
	}
	retry := retryFirstCome
	if a.UiPhase != nil {
		retry = retryLottery
	}
	w.Header().Set("Location", "/api/v1/requests/"+a.GetRequestId())
	w.Header().Set("Retry-After", retry)
	return WriteMessage(w, http.StatusAccepted, a)
}

func (h *PromotionHandlers) Close(ctx context.Context) error { return h.apply.Close(ctx) }
