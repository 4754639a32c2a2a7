package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/scripts/platform"
)

// operator sends its calls to a random replica, which may be down.
type operator struct {
	replicas []rewardv1.RewardAdminServiceClient
	rng      *rand.Rand
	// cancelled is true once the campaign is cancelled.
	cancelled bool
}

func (r *rewards) operator(rng *rand.Rand) *operator {
	o := &operator{rng: rng}
	for i := range rewardReplicas {
		o.replicas = append(o.replicas, rewardv1.NewRewardAdminServiceClient(r.Dial(platform.Gateway, platform.Reward, i)))
	}
	return o
}

// operate lets an operator cancel and retry rewards, pause the payouts for a moment and cancel a
// campaign, until end is called.
func (r *rewards) operate(rng *rand.Rand) (end func()) {
	o := r.operator(rng)
	ctx, stop := context.WithCancel(r.t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			if err := o.act(ctx, r); err != nil && !isExpected(err) {
				r.t.Errorf("operator: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	return func() {
		stop()
		<-over
		r.Eventually(func(ctx context.Context) error { return o.finish(ctx, r) })
	}
}

// act cancels the campaign once half of the rewards are inserted. Otherwise it does a random act,
// mostly on one of the newest rewards.
func (o *operator) act(ctx context.Context, r *rewards) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	inserted := r.inserted.Load()
	id := strconv.FormatInt(max(1, inserted-o.rng.Int64N(int64(r.size.rows))), 10)
	admin := o.anyReplica()
	var err error
	switch x := o.rng.IntN(20); {
	case !o.cancelled && inserted > int64(r.size.rows*r.size.waves/2):
		_, err = admin.CancelCampaign(ctx, &rewardv1.CancelCampaignRequest{Caller: operatorCaller(), EventId: r.cancelledCampaign})
		o.cancelled = err == nil
	case x < 8:
		_, err = admin.CancelReward(ctx, &rewardv1.CancelRewardRequest{Caller: operatorCaller(), AllocationId: id})
	case x < 15:
		_, err = admin.RetryReward(ctx, &rewardv1.RetryRewardRequest{Caller: operatorCaller(), AllocationId: id})
	case x < 18:
		err = o.retryAll(ctx, r)
	default:
		kind := []string{"point", "coupon"}[o.rng.IntN(2)]
		_, err = admin.PauseProvider(ctx, &rewardv1.PauseProviderRequest{Caller: operatorCaller(), Name: kind})
		if err == nil {
			_, err = o.anyReplica().ResumeProvider(ctx, &rewardv1.ResumeProviderRequest{Caller: operatorCaller(), Name: kind})
		}
	}
	return err
}

func (o *operator) anyReplica() rewardv1.RewardAdminServiceClient {
	return o.replicas[o.rng.IntN(len(o.replicas))]
}

func (o *operator) retryAll(ctx context.Context, r *rewards) error {
	_, err := o.anyReplica().RetryRewards(ctx, &rewardv1.RetryRewardsRequest{Caller: operatorCaller(), EventId: r.keptCampaign, Status: "FAILED"})
	return err
}

// retryHeld retries the rewards in whose payment several replicas were lost. retryAll omits these.
func (o *operator) retryHeld(ctx context.Context, r *rewards) error {
	var ids []string
	err := r.db.QueryRow(ctx, `SELECT coalesce(array_agg(id::text), '{}') FROM event_reward_allocation WHERE event_id = $1 AND held_at IS NOT NULL`,
		r.keptCampaign).Scan(&ids)
	for _, id := range ids {
		_, failed := o.anyReplica().RetryReward(ctx, &rewardv1.RetryRewardRequest{Caller: operatorCaller(), AllocationId: id})
		err = errors.Join(err, failed)
	}
	return err
}

// finish resumes the payouts and cancels the campaign, whatever the results of earlier acts.
func (o *operator) finish(ctx context.Context, r *rewards) error {
	admin := o.anyReplica()
	_, err := admin.CancelCampaign(ctx, &rewardv1.CancelCampaignRequest{Caller: operatorCaller(), EventId: r.cancelledCampaign})
	for _, kind := range []string{"point", "coupon"} {
		_, failed := admin.ResumeProvider(ctx, &rewardv1.ResumeProviderRequest{Caller: operatorCaller(), Name: kind})
		err = errors.Join(err, failed)
	}
	return err
}

func operatorCaller() *commonv1.Caller {
	return &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}
}

// isExpected reports errors of a replica that is down, and refusals of acts that are too late.
func isExpected(err error) bool {
	e := errs.From(err)
	return slices.Contains([]errs.Kind{errs.Unavailable, errs.Deadline, errs.Canceled}, e.Kind) ||
		errors.Is(e, errs.ErrRewardNotRetryable) || errors.Is(e, errs.ErrRewardNotCancellable) || errors.Is(e, errs.ErrAllocationNotFound)
}
