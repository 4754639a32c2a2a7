package ticket

import (
	"context"
	"errors"
	"slices"
	"time"

	"urr.guru/pkg/batch"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
)

const (
	// maxUsersPerAsk is the maximum number of users in a call of HoldsEntitlement.
	maxUsersPerAsk = 500
	// askTimeout bounds a batch of calls: visitors who join wait for it.
	askTimeout      = 500 * time.Millisecond
	maxParallelAsks = 4
	maxAsksQueued   = 4096
	maxAskingEvents = 256
)

var errAnswersMissing = errors.New("ticket has not answered about all users")

// HoldEntitlement asks about visitors together with those of other calls on the event that arrive
// meanwhile.
func (d *Directory) HoldEntitlement(ctx context.Context, eventID string, visitors []line.Visitor) ([]bool, error) {
	return d.asks.Do(ctx, eventID, visitors)
}

func (d *Directory) askTogether(ctx context.Context, eventID string, requests [][]line.Visitor) ([]batch.Result[[]bool], error) {
	var answers []bool
	for part := range slices.Chunk(slices.Concat(requests...), maxUsersPerAsk) {
		res, err := d.entitlements.HoldsEntitlement(ctx, toUsers(eventID, part))
		if err == nil && len(res.GetEntitled()) != len(part) {
			err = errAnswersMissing
		}
		if err != nil {
			return nil, err
		}
		answers = append(answers, res.GetEntitled()...)
	}
	out := make([]batch.Result[[]bool], len(requests))
	for i, r := range requests {
		out[i].Value = answers[:len(r):len(r)]
		answers = answers[len(r):]
	}
	return out, nil
}

func toUsers(eventID string, visitors []line.Visitor) *ticketv1.HoldsEntitlementRequest {
	req := &ticketv1.HoldsEntitlementRequest{EventId: eventID, Users: make([]*ticketv1.EntitlementUser, len(visitors))}
	for i, v := range visitors {
		req.Users[i] = &ticketv1.EntitlementUser{UserId: v.UserID, Email: v.Email, Claims: v.Claims}
	}
	return req
}
