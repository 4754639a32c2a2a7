package handlers

import (
	"context"
	"net/http"

	"google.golang.org/grpc"

	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
)

// Rewards serves what members do in campaigns. It responds with 201, and with 200 and the same body to a
// repeated request.
type Rewards struct {
	Service rewardv1.RewardServiceClient
}

func (h *Rewards) Attend(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return earn(w, r, q, h.Service.Attend, &rewardv1.AttendRequest{EventId: q.Param("event_id")})
}

func (h *Rewards) Draw(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return earn(w, r, q, h.Service.Draw, &rewardv1.DrawRequest{EventId: q.Param("event_id")})
}

func earn[R any](
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
