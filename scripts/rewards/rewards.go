// Package rewards is the demo of attendance, draws and payouts. Members take part in two campaigns
// through the gateway, a provider that loses answers pays them, and a replica of reward is killed
// on the way. The verdict is read from the provider's ledger and from the tables only.
package rewards

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/services/reward/sandbox"
)

// Options of a run.
type Options struct {
	// Members take part; Prizes are drawn.
	Members, Prizes int
	// Arrive is the time over which the members come.
	Arrive time.Duration
	// Limit bounds the time after the last member in which rewards may still be due.
	Limit time.Duration
	// Slow is how long every fifth payment takes.
	Slow time.Duration
	// Seed makes the faults and the order of the members repeatable.
	Seed uint64
}

// Platform is where a demo runs.
type Platform struct {
	API      *crowd.API
	Recorder *crowd.Recorder
	// Provider is the URL of the sandbox that pays.
	Provider string
	// DB is reward's database.
	DB *pgxpool.Pool
	// Replica is a replica of reward beside at least one other.
	Replica Replica
	// Reconcile runs `reward reconcile` and returns its output and exit code.
	Reconcile func(ctx context.Context) (output string, code int)
}

// Replica is a replica of reward that the demo may kill.
type Replica interface {
	// Start returns when it is ready.
	Start(ctx context.Context) error
	// Kill ends it by SIGKILL.
	Kill() error
	// Stop ends it if it runs.
	Stop() error
}

// Demo is one run.
type Demo struct {
	opts     Options
	on       Platform
	campaign campaigns
	provider sandbox.Client
	tally    demo.Tally
	began    time.Time
	took     time.Duration
	killedAt time.Duration
	samples  []Sample
}

// New prepares a run.
func New(opts Options, on Platform) *Demo {
	return &Demo{opts: opts, on: on, provider: sandbox.Client{URL: on.Provider}}
}

// faults are those of the provider. Slow answers keep both replicas busy, so that the killed
// one has calls under way.
func (o Options) faults() sandbox.Faults {
	return sandbox.Faults{Seed: o.Seed, Lost: 0.2, Slow: 0.2, SlowFor: o.Slow}
}

// cleanupLimit bounds the cleanup, also of an interrupted run.
const cleanupLimit = 20 * time.Second

// Play runs the members and the faults, and returns when no reward is due any more or the limit has
// passed. It leaves the provider and the replicas as they were.
func (d *Demo) Play(ctx context.Context) (err error) {
	before, err := d.provider.Faults(ctx)
	if err != nil {
		return err
	}
	if d.campaign, err = openCampaigns(ctx, d.on.API.NewSession(), d.opts.Prizes); err != nil {
		return fmt.Errorf("open the campaigns: %w", err)
	}
	if err := d.provider.SetFaults(ctx, d.opts.faults()); err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		for _, undo := range []error{d.provider.SetFaults(cleanup, before), d.on.Replica.Stop()} {
			if err == nil {
				err = undo
			}
		}
	}()
	if err := d.on.Replica.Start(ctx); err != nil {
		return fmt.Errorf("another replica of reward: %w", err)
	}
	fmt.Printf("%d members attend %s and draw for %d prizes of %s; every fifth answer of the provider is lost (seed %d)\n",
		d.opts.Members, d.campaign.attendance, d.opts.Prizes, d.campaign.random, d.opts.Seed)
	d.began = time.Now()
	err = d.play(ctx)
	d.took = time.Since(d.began)
	return err
}

func (d *Demo) play(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	progress := d.newProgress()
	defer progress.Close()
	gone, busy, recovered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	group.Go(func() error {
		defer close(gone)
		d.visitAll(ctx)
		return ctx.Err()
	})
	group.Go(func() error {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer close(recovered)
		return d.killReplica(ctx, progress)
	})
	group.Go(func() error { return d.watch(ctx, progress, gone, recovered, sync.OnceFunc(func() { close(busy) })) })
	return group.Wait()
}

// killReplica kills the replica and starts it again.
func (d *Demo) killReplica(ctx context.Context, progress *demo.Progress) error {
	if err := d.on.Replica.Kill(); err != nil {
		return fmt.Errorf("kill a replica of reward: %w", err)
	}
	d.killedAt = time.Since(d.began)
	progress.Say("%4.0f s  a replica of reward is killed (SIGKILL)", d.killedAt.Seconds())
	if err := d.on.Replica.Start(ctx); err != nil {
		return fmt.Errorf("start the killed replica of reward: %w", err)
	}
	progress.Say("%4.0f s  it runs again", time.Since(d.began).Seconds())
	return nil
}
