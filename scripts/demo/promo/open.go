package promo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/internal/fetch"
)

func (r *run) firstCome() map[string]any {
	now := time.Now().UTC()
	return map[string]any{
		"title": "Demo first come", "eventType": "FIRST_COME", "capacityTotal": r.cfg.FirstCome, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour),
	}
}

// lotteryTerms are those of a lottery that closes after the window and is decided by the sandbox's
// beacon.
func (r *run) lotteryTerms(ctx context.Context, window time.Duration) (terms map[string]any, cutoff time.Time, err error) {
	chain, err := chainOf(ctx, r.wiring.BeaconURL())
	if err != nil {
		return nil, cutoff, err
	}
	now := time.Now().UTC()
	cutoff = now.Add(window).Truncate(time.Second)
	return map[string]any{
		"title": "Demo lottery", "eventType": "LOTTERY", "capacityTotal": r.cfg.Lottery, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": cutoff, "lotteryCutoffAt": cutoff, "announcedAt": cutoff.Add(r.cfg.Delay + lead),
		"beacon": map[string]any{
			"scheme": chain.Scheme, "chainHash": chain.ChainHash, "publicKey": chain.PublicKey, "genesis": chain.Genesis,
			"periodSeconds": chain.Period, "delaySeconds": int64(r.cfg.Delay / time.Second),
		},
	}, cutoff, nil
}

// chainOf reads which chain the beacon at a URL publishes.
func chainOf(ctx context.Context, url string) (chain beacon.Chain, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var info beacon.Info
	raw, err := fetch.Get(ctx, url+"/info")
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil {
		return chain, fmt.Errorf("the sandbox's beacon: %w", err)
	}
	return info.Chain(), nil
}

// open creates a promotion by the operators' API and returns its id.
func (r *run) open(ctx context.Context, terms map[string]any) (event string, err error) {
	return demo.Create(ctx, r.operator, crowd.StepPromotion, "/api/v1/admin/promotions", terms)
}
