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
	// askTimeout bounds a batch of calls: visitors who join wait for it.
	askTimeout      = 500 * time.Millisecond
	maxParallelAsks = 4
	// maxParallelCalls bounds the calls of a batch at once: its requests may have many visitors each.
	maxParallelCalls = 4
	maxAsksQueued    = 4096
	maxAskingEvents  = 256
)

var errAnswersMissing = errors.New("ticket has not answered about all users")

// HoldEntitlement asks ticket about visitors. Concurrent calls on the same event share requests to
// ticket.
func (d *Directory) HoldEntitlement(ctx context.Context, eventID string, visitors []line.Visitor) ([]bool, error) {
	return d.asks.Do(ctx, eventID, visitors)
}

// askTogether asks about the visitors of all requests, a few calls at once. A call that fails costs only the
// requests that have visitors in it.
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

// ask asks about visitors in one call, and writes the answers.
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
