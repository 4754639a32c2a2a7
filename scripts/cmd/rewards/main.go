// Command rewards runs the demo of rewards on the checkout's platform: members attend and draw, are
// paid by a provider that loses answers, and a replica of reward is killed on the way. The last
// line is `demo-rewards ok: …` or `demo-rewards FAILED: …`; the exit code is 1 when an invariant is
// violated.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/rewards"
	"urr.guru/scripts/runner"
)

// Config is read from the environment, so that `make demo-rewards MEMBERS=300` works.
type Config struct {
	// Members take part, over Arrive; Prizes are drawn.
	Members int           `env:"MEMBERS, default=2000" min:"1" max:"100000"`
	Prizes  int           `env:"PRIZES, default=50" min:"1" max:"100000"`
	Arrive  time.Duration `env:"ARRIVE, default=15s" min:"0s" max:"1h"`
	// Limit bounds the time after the last member in which rewards may still be due.
	Limit time.Duration `env:"LIMIT, default=2m" min:"1s" max:"1h"`
	// Seed makes the faults repeatable; 0 takes it from the clock.
	Seed uint64 `env:"SEED, default=0"`
	// Break damages the stores before the audit, to show that it detects the damage.
	Break string `env:"BREAK"`
}

// Validate refuses an unknown BREAK, and takes a missing seed from the clock.
func (c *Config) Validate() error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	return demo.CheckDamage(c.Break, rewards.Damages())
}

// slow is the duration of every fifth payment; it is below REWARD_CALL_TIMEOUT in development.
const slow = time.Second

func main() { demo.Main("demo-rewards", play) }

func play(ctx context.Context, cfg *Config, layout platform.Layout) error {
	local, err := runner.New(ctx, layout, func(string, ...any) {})
	if err != nil {
		return err
	}
	service, err := platform.Lookup(platform.Reward)
	if err != nil {
		return err
	}
	wiring := layout.Wiring(platform.Secrets{})
	db, err := pgxpool.New(ctx, wiring.DatabaseURL(service))
	if err != nil {
		return fmt.Errorf("reward's database: %w", err)
	}
	defer db.Close()
	recorder := crowd.NewRecorder()
	api := crowd.NewAPI(layout.GatewayURL(), recorder)
	defer api.Close()
	extra := newReplica(local, layout, service)
	d := rewards.New(
		rewards.Options{Members: cfg.Members, Prizes: cfg.Prizes, Arrive: cfg.Arrive, Limit: cfg.Limit, Slow: slow, Seed: cfg.Seed},
		rewards.Platform{
			API: api, Recorder: recorder, Provider: wiring.RewardProviderURL(), DB: db, Replica: extra,
			Reconcile: extra.reconcile,
		})
	return demo.Run(ctx, d, cfg.Break, layout.State("demo-rewards"))
}
