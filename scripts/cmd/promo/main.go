// Command promo runs the demo of promotions on the checkout's platform: a burst of applications to a
// first-come promotion and one to a lottery, whose draw it verifies. The last line is
// `demo-promo ok: …` or `demo-promo FAILED: …`; the exit code is 1 when an invariant is violated.
package main

import (
	"context"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/promo"
)

// Config is read from the environment, so that `make demo-promo APPLICANTS=300` works.
type Config struct {
	// Applicants apply to each promotion, for that many places.
	Applicants int `env:"APPLICANTS, default=5000" min:"1" max:"100000"`
	FirstCome  int `env:"FIRST_COME, default=500" min:"1" max:"100000"`
	Lottery    int `env:"LOTTERY, default=100" min:"1" max:"100000"`
	// Window is the time in which the lottery takes applications; 0: three times what the first
	// burst took.
	Window time.Duration `env:"WINDOW, default=0s" min:"0s" max:"1h"`
	// Delay is the time from the cutoff to the beacon's round; the root must be public for a minute.
	Delay time.Duration `env:"DELAY, default=80s" min:"1s" max:"1h"`
	// Limit bounds the time in which requests may be unsettled.
	Limit time.Duration `env:"LIMIT, default=2m" min:"1s" max:"1h"`
	// Break damages the table before the audit, to show that it detects the damage.
	Break string `env:"BREAK"`
}

// Validate refuses an unknown BREAK.
func (c *Config) Validate() error {
	return demo.CheckDamage(c.Break, promo.Damages())
}

// lead is the time from the beacon's round to the announcement.
const lead = 15 * time.Second

func main() { demo.Main("demo-promo", play) }

func play(ctx context.Context, cfg *Config, layout platform.Layout) error {
	recorder := crowd.NewRecorder()
	api := crowd.NewAPI(layout.GatewayURL(), recorder)
	defer api.Close()
	d := promo.New(promo.Options{
		Applicants: cfg.Applicants, FirstCome: cfg.FirstCome, Lottery: cfg.Lottery, Window: cfg.Window, Delay: cfg.Delay, Lead: lead, Limit: cfg.Limit,
	}, promo.Platform{API: api, Recorder: recorder, Wiring: layout.Wiring(platform.Secrets{})})
	return demo.Run(ctx, d, cfg.Break, layout.State("demo-promo"))
}
