package bench

import (
	"context"
	"sync/atomic"
	"time"

	"urr.guru/pkg/promotion"
	"urr.guru/scripts/awsproxy"
)

const (
	// onePacked and oneAlone are the numbers of requests of a single promotion that are settled in
	// messages of several requests, and in messages of one. Workers receive five batches, and ten.
	onePacked, oneAlone = 450, 100
	// The latencies of calls of AWS, which the local servers do not have.
	queueLatency, storeLatency = 10 * time.Millisecond, 15 * time.Millisecond
)

// addOnePromotion measures how fast the requests of a single promotion, which share one message
// group, are settled with the latencies of AWS. It sets the parts "one", the µs per request,
// "one_alone", the same with one request per message, and "conflicts", the factor for the time if
// 30 % of the transactions are cancelled because of conflicts, which DynamoDB Local never does.
func (r *requestRows) addOnePromotion(ctx context.Context, parts map[string]float64) (err error) {
	var n atomic.Int64
	conflicting := func(c awsproxy.Call) (f awsproxy.Fault) {
		if c.Name == "TransactWriteItems" && n.Add(1)%10 < 3 {
			f = awsproxy.Canceled(c, len(c.Items())-1, awsproxy.Conflict)
		}
		return f
	}
	if parts["one_alone"], err = r.settleOnePromotion(ctx, oneAlone, 1, nil); err != nil {
		return err
	}
	if parts["one"], err = r.settleOnePromotion(ctx, onePacked, promotion.MaxMembers, nil); err != nil {
		return err
	}
	disturbed, err := r.settleOnePromotion(ctx, onePacked, promotion.MaxMembers, conflicting)
	parts["conflicts"] = disturbed / parts["one"]
	return err
}

// settleOnePromotion has the workers settle n requests of one promotion with the latencies of AWS.
// rule chooses the faults of their DynamoDB calls; nil: no faults.
func (r *requestRows) settleOnePromotion(ctx context.Context, n, members int, rule awsproxy.Rule) (float64, error) {
	all, err := r.storeRequests(ctx, 1, n)
	if err != nil {
		return 0, err
	}
	r.calls.settling.Use(func(c awsproxy.Call) (f awsproxy.Fault) {
		if rule != nil {
			f = rule(c)
		}
		f.Delay = storeLatency
		return f
	})
	defer r.calls.settling.Use(nil)
	defer r.calls.receiving.Use(nil)
	return r.settleAll(ctx, all, members, func(awsproxy.Call) awsproxy.Fault { return awsproxy.Fault{Delay: queueLatency} })
}
