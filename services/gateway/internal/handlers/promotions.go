package handlers

import (
	"context"
	"net/http"

	"urr.guru/pkg/batch"
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

// PromotionHandlers takes applications to promotions.
type PromotionHandlers struct {
	apply *batch.Groups[string, *ingestv1.ApplyItem, *ingestv1.Applied] // by promotion
}

// NewPromotionHandlers makes the handler of applications.
func NewPromotionHandlers(ingest ingestv1.IngestServiceClient) *PromotionHandlers {
	// An application is stored before the response, as a position is, so its time-out is as long.
	return &PromotionHandlers{apply: newEventBatches(batchConfig(assignTimeout), batchrpc.Call(ingest.Apply, func(items []*ingestv1.ApplyItem) *ingestv1.ApplyRequest {
		return &ingestv1.ApplyRequest{Items: items}
	}, (*ingestv1.ApplyResult).GetApplied))}
}

// Apply applies for the user, once per promotion: a repeated call gets the same request.
func (h *PromotionHandlers) Apply(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	a, err := h.apply.Do(r.Context(), q.Event, &ingestv1.ApplyItem{Caller: q.Caller(), EventId: q.Event})
	if err != nil {
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
