// Package rewards is the rewards demo. Members take part in two campaigns through the gateway, a
// provider that loses answers pays them, and a replica of the reward service is killed meanwhile.
// The verdict is based on the provider's ledger and the reward service's tables.
package rewards

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/runner"
	"urr.guru/services/reward/sandbox"
)

// Config is read from environment variables, so that `make demo-rewards MEMBERS=300` works.
type Config struct {
	// Members is the number of members, who come within Arrive; Prizes is the stock of prizes.
	Members int           `env:"MEMBERS, default=2000" min:"1" max:"100000"`
	Prizes  int           `env:"PRIZES, default=50" min:"1" max:"100000"`
	Arrive  time.Duration `env:"ARRIVE, default=15s" min:"0s" max:"1h"`
	// Limit is how long nothing may get paid, after the last member has left, while rewards are due.
	Limit time.Duration `env:"LIMIT, default=2m" min:"1s" max:"1h"`
	// Seed determines the faults and the order of the members; 0 takes a seed from the clock.
	Seed uint64 `env:"SEED, default=0"`
	// Break injects a fault into the stores before the audit, to show that the audit detects it.
	Break string `env:"BREAK"`
}

// Validate returns an error if Break is no known kind of fault. It replaces the seed 0 by the time.
func (c *Config) Validate() error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	return demo.CheckFaultKind(c.Break, audit.RewardsFaultKinds())
}

// Platform gives access to the platform on which the rewards demo runs.
type Platform struct {
	// Gateway is the gateway's URL. Provider is that of the sandbox provider, which pays rewards.
	Gateway, Provider string
	// DB is the reward service's database.
	DB *pgxpool.Pool
	// Replica is a replica of the reward service that the demo kills. At least one other must run.
	Replica Replica
	// Reconcile runs `reward reconcile` and returns its output and exit code.
	Reconcile func(ctx context.Context) (output string, code int)
	// Slow is the duration of every fifth payment; it must be less than REWARD_CALL_TIMEOUT.
	Slow time.Duration
}

// Replica is a replica of the reward service that the demo may kill.
type Replica interface {
	// Start starts the replica and returns when it is ready.
	Start(ctx context.Context) error
	// Kill ends the replica by SIGKILL.
	Kill() error
	// Stop ends the replica if it runs.
	Stop() error
}

// Demo is one run of the rewards demo.
type Demo struct {
	*demo.Stage

	cfg      *Config
	target   Platform
	campaign campaigns
	provider sandbox.Client
	killedAt time.Duration
}

// New prepares a run of the demo on a running platform.
func New(cfg *Config, target Platform) *Demo {
	return &Demo{Stage: demo.NewStage(target.Gateway), cfg: cfg, target: target, provider: sandbox.Client{URL: target.Provider}}
}

// Run runs the demo on the checkout's platform, with a second replica of the reward service.
func Run(ctx context.Context, cfg *Config, layout platform.Layout) error {
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
	extra := newReplica(local, layout, service)
	d := New(cfg, Platform{
		Gateway: layout.GatewayURL(), Provider: wiring.RewardProviderURL(), DB: db, Replica: extra, Reconcile: extra.reconcile, Slow: time.Second,
	})
	defer d.Close()
	return demo.Run(ctx, d, cfg.Break, layout.State("demo-rewards"))
}

// providerFaults returns the faults of the provider. Its slow answers keep both replicas busy, so
// that the replica that is killed has calls in progress.
func (d *Demo) providerFaults() sandbox.Faults {
	return sandbox.Faults{Seed: d.cfg.Seed, Lost: 0.2, Slow: 0.2, SlowFor: d.target.Slow}
}

// cleanupLimit is the time limit of the cleanup at the end of a run, even of an interrupted one.
const cleanupLimit = 20 * time.Second

// Play runs the members' visits and injects the faults until no reward is due, or until the limit.
// It then restores the provider's faults and stops the second replica.
func (d *Demo) Play(ctx context.Context) (err error) {
	before, err := d.provider.Faults(ctx)
	if err != nil {
		return err
	}
	if d.campaign, err = openCampaigns(ctx, d.API.NewSession(), d.cfg.Prizes); err != nil {
		return fmt.Errorf("open the campaigns: %w", err)
	}
	if err := d.provider.SetFaults(ctx, d.providerFaults()); err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		for _, cleanupErr := range []error{d.provider.SetFaults(cleanup, before), d.target.Replica.Stop()} {
			if err == nil {
				err = cleanupErr
			}
		}
	}()
	if err := d.target.Replica.Start(ctx); err != nil {
		return fmt.Errorf("another replica of reward: %w", err)
	}
	fmt.Printf("%d members attend %s and draw for %d prizes of %s; every fifth answer of the provider is lost (seed %d)\n",
		d.cfg.Members, d.campaign.attendance, d.cfg.Prizes, d.campaign.random, d.cfg.Seed)
	return d.play(ctx)
}

func (d *Demo) play(ctx context.Context) error {
	defer d.Begin(demo.ProgressBar{Name: "members", Total: d.cfg.Members}, demo.ProgressBar{Name: "entries", Total: 2 * d.cfg.Members},
		demo.ProgressBar{Name: "paid", Total: d.cfg.Members + d.cfg.Prizes})()
	group, ctx := errgroup.WithContext(ctx)
	gone, busy, recovered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	group.Go(func() error {
		defer close(gone)
		d.RunVisits(ctx, d.cfg.Members, atOnce, d.cfg.Arrive, d.cfg.Seed, d.visit)
		return ctx.Err()
	})
	group.Go(func() error {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer close(recovered)
		return d.killReplica(ctx)
	})
	group.Go(func() error { return d.awaitPayouts(ctx, gone, recovered, sync.OnceFunc(func() { close(busy) })) })
	return group.Wait()
}

// killReplica kills the replica and starts it again.
func (d *Demo) killReplica(ctx context.Context) error {
	if err := d.target.Replica.Kill(); err != nil {
		return fmt.Errorf("kill a replica of reward: %w", err)
	}
	d.killedAt = d.Elapsed()
	d.Say("a replica of reward is killed (SIGKILL)")
	if err := d.target.Replica.Start(ctx); err != nil {
		return fmt.Errorf("start the killed replica of reward: %w", err)
	}
	d.Say("it runs again")
	return nil
}

func (d *Demo) evidence() *audit.RewardsRun {
	return &audit.RewardsRun{
		DB: d.target.DB, Provider: d.provider, Reconcile: d.target.Reconcile, Attendance: d.campaign.attendance, Random: d.campaign.random,
		Members: d.cfg.Members, Prizes: d.cfg.Prizes, Points: attendancePoints, Began: d.Began(), Ended: d.Ended(), Violations: d.Tally.Violations(),
	}
}

func (d *Demo) InjectFault(ctx context.Context, fault string) error {
	return d.evidence().InjectFault(ctx, fault)
}

// Judge computes the verdict from the provider's ledger and the reward service's tables.
func (d *Demo) Judge(ctx context.Context) (audit.RewardsVerdict, audit.Findings, error) {
	return d.evidence().Judge(ctx)
}

func (d *Demo) Report(ctx context.Context, v audit.RewardsVerdict) (*demo.Report, error) {
	// The numbers of all calls to the provider, of those without an answer, and of those during which
	// the replica was killed; and the number of rewards that needed more than one call.
	var calls, unknown, cutOff, repeated int64
	err := d.target.DB.QueryRow(ctx, `
		SELECT coalesce(sum(n), 0), coalesce(sum(unknown), 0), coalesce(sum(cut_off), 0), count(*) FILTER (WHERE n > 1) FROM (
			SELECT count(*) AS n, count(*) FILTER (WHERE c.outcome = 'UNKNOWN') AS unknown, count(*) FILTER (WHERE c.ended_at IS NULL) AS cut_off
			FROM event_reward_allocation AS a JOIN reward_call AS c ON c.allocation_id = a.id
			WHERE a.event_id = ANY($1) GROUP BY a.id
		) AS calls`, d.campaign.ids()).Scan(&calls, &unknown, &cutOff, &repeated)
	if err != nil {
		return nil, fmt.Errorf("count the calls: %w", err)
	}
	return &demo.Report{
		Title: "URR demo of rewards", Heading: fmt.Sprintf("%d members, %d prizes", v.Expected, d.cfg.Prizes),
		Summary: fmt.Sprintf("Campaigns %s (attendance) and %s (draw), %.0f s; a replica was killed after %.0f s, every fifth answer of the provider was lost, seed %d.",
			d.campaign.attendance, d.campaign.random, d.Ended().Sub(d.Began()).Seconds(), d.killedAt.Seconds(), d.cfg.Seed),
		Plots: []demo.Plot{
			{Title: "Entries and rewards", Text: "Attendances and draws, and rewards that the service knows to be paid.", Lines: []demo.PlotLine{
				{Name: "entries", Color: demo.Blue}, {Name: "paid", Color: demo.Green},
			}},
			{
				Title: "Rewards that are due", Text: "Unpaid rewards, and those whose call is under way. After the kill some wait until their lease has ended.",
				Lines: []demo.PlotLine{{Name: "due", Color: demo.Orange}, {Name: "in progress", Color: demo.Blue}},
			},
		},
		Counts: demo.NumberTable{Title: "What the members saw, and the calls to the provider", Name: "what", Number: "number", Rows: []demo.NamedNumber{
			{Name: "calls to the provider", N: calls}, {Name: "calls without an answer", N: unknown},
			{Name: "calls that ended with the killed replica", N: cutOff}, {Name: "rewards with more than one call", N: repeated},
		}},
		Details: map[string]any{
			"attendance_id": d.campaign.attendance, "random_id": d.campaign.random, "prizes": d.cfg.Prizes, "seed": d.cfg.Seed,
			"killed_after_seconds": d.killedAt.Seconds(), "calls": calls, "unknown": unknown, "cut_off": cutOff, "repeated": repeated,
		},
	}, nil
}
