package ticket

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/batch"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
)

const (
	// maxUsersPerAsk is the maximum number of users in a call of HoldsEntitlement.
	maxUsersPerAsk = 500
	// askTimeout is the time limit of a batch of calls. Visitors who join wait for the batch.
	askTimeout      = 500 * time.Millisecond
	maxParallelAsks = 4
	// maxParallelCalls is the most calls of a batch at once; a batch can need more than one call.
	maxParallelCalls = 4
	maxAsksQueued    = 4096
	maxAskingEvents  = 256
)

var errAnswersMissing = errors.New("ticket has not answered about all users")

// HoldEntitlement asks the ticket service which visitors have an entitlement. Concurrent calls for
// one event are combined.
func (d *Directory) HoldEntitlement(ctx context.Context, eventID string, visitors []line.Visitor) ([]bool, error) {
	return d.asks.Do(ctx, eventID, visitors)
}

// askTogether asks about the visitors of all requests, in a few calls at once. If a call fails,
// only the requests with visitors in that call fail.
func (d *Directory) askTogether(ctx context.Context, eventID string, requests [][]line.Visitor) ([]batch.Result[[]bool], error) {
	visitors := slices.Concat(requests...)
	answers, failures := make([]bool, len(visitors)), make([]error, (len(visitors)+maxUsersPerAsk-1)/maxUsersPerAsk)
	var calls errgroup.Group
	calls.SetLimit(maxParallelCalls)
	for k := range failures {
		from := k * maxUsersPerAsk
		to := min(from+maxUsersPerAsk, len(visitors))
		calls.Go(func() error {
			failures[k] = d.ask(ctx, eventID, visitors[from:to], answers[from:to])
			return nil
		})
	}
	_ = calls.Wait()
	out, from := make([]batch.Result[[]bool], len(requests)), 0
	for i, r := range requests {
		to := from + len(r)
		out[i].Value = answers[from:to:to]
		if len(r) > 0 {
			out[i].Err = errors.Join(failures[from/maxUsersPerAsk : (to-1)/maxUsersPerAsk+1]...)
		}
		from = to
	}
	return out, nil
}

// ask asks about visitors in one call, and writes the results to answers.
func (d *Directory) ask(ctx context.Context, eventID string, visitors []line.Visitor, answers []bool) error {
	res, err := d.entitlements.HoldsEntitlement(ctx, toUsers(eventID, visitors))
	if err != nil {
		return err
	}
	if len(res.GetEntitled()) != len(visitors) {
		return errAnswersMissing
	}
	copy(answers, res.GetEntitled())
	return nil
}

func toUsers(eventID string, visitors []line.Visitor) *ticketv1.HoldsEntitlementRequest {
	req := &ticketv1.HoldsEntitlementRequest{EventId: eventID, Users: make([]*ticketv1.EntitlementUser, len(visitors))}
	for i, v := range visitors {
		req.Users[i] = &ticketv1.EntitlementUser{UserId: v.UserID, Email: v.Email, Claims: v.Claims}
	}
	return req
}
