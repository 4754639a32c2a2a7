package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"
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
)

// soldOutUser is a user without a request to a sold-out promotion.
type soldOutUser struct{ event, user string }

// PromotionHandlers accepts applications to promotions.
type PromotionHandlers struct {
	apply   *batch.Groups[string, *ingestv1.ApplyItem, *ingestv1.Applied] // by promotion
	refused *otter.Cache[soldOutUser, error]
}

// NewPromotionHandlers makes the handler of applications; clock is nil except in tests.
func NewPromotionHandlers(ingest ingestv1.IngestServiceClient, clock otter.Clock) (*PromotionHandlers, error) {
	refused, err := otter.New(&otter.Options[soldOutUser, error]{
		MaximumSize: maxRefused, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[soldOutUser, error](refusedFor),
	})
	if err != nil {
		return nil, err
	}
	// Like a position, an application is stored before the response, so its time-out is as long.
	return &PromotionHandlers{
		refused: refused,
		apply: newEventBatches(crowdBatchConfig(assignTimeout), batchrpc.Call(ingest.Apply, func(items []*ingestv1.ApplyItem) *ingestv1.ApplyRequest {
			return &ingestv1.ApplyRequest{Items: items}
		}, (*ingestv1.ApplyResult).GetApplied)),
	}, nil
}

// RefusalFromMemory returns the error of a user who got SOLD_OUT within the last minute, else nil.
func (h *PromotionHandlers) RefusalFromMemory(_ http.ResponseWriter, q *edge.Request) error {
	user := q.User()
	if user == "" {
		return nil
	}
	err, _ := h.refused.GetIfPresent(soldOutUser{q.EventInPath(), user})
	return err
}

// Apply applies for the user, once per promotion: a repeated call returns the same request.
func (h *PromotionHandlers) Apply(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
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
