package promo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

func (d *Demo) firstCome() map[string]any {
	now := time.Now().UTC()
	return map[string]any{
		"title": "Demo first come", "eventType": "FIRST_COME", "capacityTotal": d.opts.FirstCome, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour),
	}
}

// lotteryTerms are those of a lottery that closes after the window and is decided by the sandbox's
// beacon.
func (d *Demo) lotteryTerms(ctx context.Context, window time.Duration) (terms map[string]any, cutoff time.Time, err error) {
	chain, err := ChainOf(ctx, d.on.Wiring.BeaconURL())
	if err != nil {
		return nil, cutoff, err
	}
	now := time.Now().UTC()
	cutoff = now.Add(window).Truncate(time.Second)
	return map[string]any{
		"title": "Demo lottery", "eventType": "LOTTERY", "capacityTotal": d.opts.Lottery, "shards": 4,
		"opensAt": now.Add(-time.Minute), "closesAt": cutoff, "lotteryCutoffAt": cutoff, "announcedAt": cutoff.Add(d.opts.Delay + d.opts.Lead),
		"beacon": map[string]any{
			"scheme": chain.Scheme, "chainHash": chain.ChainHash, "publicKey": chain.PublicKey, "genesis": chain.Genesis,
			"periodSeconds": chain.Period, "delaySeconds": int64(d.opts.Delay / time.Second),
		},
	}, cutoff, nil
}

// ChainOf reads which chain the beacon at a URL publishes.
func ChainOf(ctx context.Context, url string) (chain beacon.Chain, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/info", nil)
	if err != nil {
		return chain, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return chain, fmt.Errorf("the sandbox's beacon: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var info beacon.Info
	if err := json.NewDecoder(response.Body).Decode(&info); err != nil {
		return chain, fmt.Errorf("the sandbox's beacon: %s: %w", response.Status, err)
	}
	return info.Chain(), nil
}

// open creates a promotion by the operators' API and returns its id.
func (d *Demo) open(ctx context.Context, terms map[string]any) (event string, err error) {
	return demo.Create(ctx, d.operator, crowd.StepPromotion, "/api/v1/admin/promotions", terms)
}
