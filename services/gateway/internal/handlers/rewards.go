package handlers

import (
	"context"
	"net/http"

	"google.golang.org/grpc"

	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
)

// RewardHandlers serves the calls by which members attend campaigns and draw prizes. It responds
// with 201, and to a repeated request with 200 and the same body.
type RewardHandlers struct {
	Service rewardv1.RewardServiceClient
}

func (h *RewardHandlers) Attend(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return respondToEarning(w, r, q, h.Service.Attend, &rewardv1.AttendRequest{EventId: q.Param("event_id")})
}

func (h *RewardHandlers) Draw(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return respondToEarning(w, r, q, h.Service.Draw, &rewardv1.DrawRequest{EventId: q.Param("event_id")})
}

func respondToEarning[R any](
	w http.ResponseWriter, r *http.Request, q *edge.Request, call func(context.Context, R, ...grpc.CallOption) (*rewardv1.Earned, error), request R,
) error {
	earned, err := call(caller.With(r.Context(), q.Caller()), request)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if earned.GetRepeated() {
		status = http.StatusOK
	}
	return WriteMessage(w, status, earned)
}
