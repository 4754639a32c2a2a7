// Command promo runs the demo of promotions on the checkout's platform: a burst of applications to a
// first-come promotion and one to a lottery, whose draw it verifies. The last line is
// `demo-promo ok: …` or `demo-promo FAILED: …`; the exit code is 1 when an invariant is violated.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/internal/interrupt"
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
	if c.Break != "" && !slices.Contains(promo.Damages(), c.Break) {
		return fmt.Errorf("BREAK=%q: must be %s", c.Break, strings.Join(promo.Damages(), " or "))
	}
	return nil
}

// lead is the time from the beacon's round to the announcement.
const lead = 15 * time.Second

func main() {
	ctx, stop := interrupt.Context()
	err := demo.End(ctx, "demo-promo", run(ctx))
	stop()
	os.Exit(demo.ExitCode(err))
}

func run(ctx context.Context) error {
	cfg, err := config.Load[Config](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	recorder := crowd.NewRecorder()
	api := crowd.NewAPI(layout.GatewayURL(), recorder)
	defer api.Close()
	d := promo.New(promo.Options{
		Applicants: cfg.Applicants, FirstCome: cfg.FirstCome, Lottery: cfg.Lottery, Window: cfg.Window, Delay: cfg.Delay, Lead: lead, Limit: cfg.Limit,
	}, promo.Platform{API: api, Recorder: recorder, Wiring: layout.Wiring(platform.Secrets{})})
	if err := d.Play(ctx); err != nil {
		return err
	}
	if cfg.Break != "" {
		if err := d.Damage(ctx, cfg.Break); err != nil {
			return err
		}
	}
	verdict, findings, err := d.Judge(ctx)
	if err != nil {
		return err
	}
	if err := d.Report(verdict, findings, layout.State("demo-promo")); err != nil {
		return err
	}
	return demo.Conclude(verdict)
}
