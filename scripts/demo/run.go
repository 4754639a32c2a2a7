// Package demo is what the demos share: the sequence of a run, requests of members, progress on the
// terminal, a report with plots, the last line, and the exit code. Each demo has its own folder.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
)

var (
	// ErrInterrupted wraps the end of a run by Ctrl-C.
	ErrInterrupted = errors.New("interrupted")
	// ErrBroken reports a violated invariant, after the line that names it was printed.
	ErrBroken = errors.New("an invariant is broken")
)

// printEnd prints the last line of a run without a verdict, which has failed or was interrupted,
// and returns its error.
func printEnd(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		if !errors.Is(err, ErrInterrupted) { // nothing had to be cleaned up
			err = fmt.Errorf("%w; the platform runs on (make status, make down)", ErrInterrupted)
		}
		fmt.Println(name + " " + err.Error())
	case !errors.Is(err, ErrBroken):
		fmt.Println(name + " FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}

// ExitCode is 130 after an interrupt, as in a shell, and 1 after any other failure.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInterrupted):
		return interrupt.Code
	default:
		return 1
	}
}

// Verdict is the judgement on a run of a demo.
type Verdict interface {
	OK() bool
	// Line is the last line of the run.
	Line() string
}

// Main runs a demo of the checkout, prints its last line and exits. The settings C are read from the
// environment.
func Main[C any](name string, play func(context.Context, *C, platform.Layout) error) {
	ctx, stop := interrupt.Context()
	err := printEnd(ctx, name, loadAndPlay(ctx, play))
	stop()
	os.Exit(ExitCode(err))
}

func loadAndPlay[C any](ctx context.Context, play func(context.Context, *C, platform.Layout) error) error {
	cfg, err := config.Load[C](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	return play(ctx, cfg, layout)
}

// CheckDamage refuses a setting BREAK that names no known damage; empty: none.
func CheckDamage(what string, known []string) error {
	if what != "" && !slices.Contains(known, what) {
		return fmt.Errorf("BREAK=%q: must be %s", what, strings.Join(known, " or "))
	}
	return nil
}

// Demo is one run of a demo, with a verdict of type V.
type Demo[V Verdict] interface {
	// Play returns when nothing is in progress any more, or the run's time limit has passed.
	Play(ctx context.Context) error
	// Damage changes the stores, bypassing the services, to show that Judge detects it.
	Damage(ctx context.Context, what string) error
	Judge(ctx context.Context) (V, audit.Findings, error)
	// Report returns the demo's part of the report.
	Report(ctx context.Context, v V) (*Report, error)
	// WriteReport completes and writes the report; a Demo embeds Stage, which has it.
	WriteReport(r *Report, v Verdict, findings []string, dir string) error
}

// Run plays and judges a demo, writes report.html and report.json into a folder, and prints the last
// line; damage, if not empty, is done before the judgement.
func Run[V Verdict](ctx context.Context, d Demo[V], damage, dir string) error {
	if err := d.Play(ctx); err != nil {
		return err
	}
	if damage != "" {
		fmt.Printf("damaging the stores on purpose (BREAK=%s)\n", damage)
		if err := d.Damage(ctx, damage); err != nil {
			return fmt.Errorf("damage: %w", err)
		}
	}
	verdict, findings, err := d.Judge(ctx)
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	if err := Publish(ctx, d, verdict, findings, dir); err != nil {
		return err
	}
	fmt.Println(verdict.Line())
	if !verdict.OK() {
		return ErrBroken
	}
	return nil
}

// Publish prints the tables of a run and writes its report into a folder.
func Publish[V Verdict](ctx context.Context, d Demo[V], v V, findings audit.Findings, dir string) error {
	r, err := d.Report(ctx, v)
	if err != nil {
		return err
	}
	return d.WriteReport(r, v, findings, dir)
}

// State is how far a run has come.
type State int

// The states of a run, in their order.
const (
	Acting   State = iota // visitors act
	Settling              // all visitors have gone, and their requests are in progress
	Settled
)

// Watch calls look at an interval until it returns Settled. If look returns Settling for longer
// than limit, Watch calls late and returns.
func Watch(ctx context.Context, every, limit time.Duration, look func(context.Context) (State, error), late func()) error {
	var deadline <-chan time.Time
	for tick := time.Tick(every); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			late()
			return nil
		case <-tick:
		}
		state, err := look(ctx)
		switch {
		case err != nil:
			return err
		case state == Settled:
			return nil
		case state == Settling && deadline == nil:
			deadline = time.After(limit)
		}
	}
}

// Closed reports whether a channel to which nothing is ever sent is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
