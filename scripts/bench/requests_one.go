package bench

import (
	"context"
	"sync/atomic"
	"time"

	"urr.guru/pkg/promotion"
	"urr.guru/scripts/awsproxy"
)

const (
	// onePacked requests of one promotion are sent with several in a message, oneAlone with one in
	// each. The workers receive five batches of the former, and ten of the latter.
	onePacked, oneAlone = 450, 100
	// Latencies of calls to AWS, which are added since the local servers have none.
	queueLatency, storeLatency = 10 * time.Millisecond, 15 * time.Millisecond
)

// addOnePromotion measures how fast the requests of one promotion, which share a message group, get
// results with the latencies of AWS. It sets the parts "one", the µs per request; "one_alone", the
// same with one request per message; and "conflicts", the factor by which the time grows if 30 % of
// the transactions fail because of conflicts, which DynamoDB Local never reports.
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

// settleOnePromotion has the workers decide about n requests of one promotion with the latencies of
// AWS. rule chooses the faults of their DynamoDB calls; with nil, there are none.
func (r *requestRows) settleOnePromotion(ctx context.Context, n, perMessage int, rule awsproxy.Rule) (float64, error) {
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
	return r.settleAll(ctx, all, perMessage, func(awsproxy.Call) awsproxy.Fault { return awsproxy.Fault{Delay: queueLatency} })
}
