// Package demo has what all demos need: the order of a run, requests of members, progress on the
// terminal, a report with plots, the last line, and the exit code. Each demo has its own folder.
package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// ErrInterrupted is wrapped by the error of a run that ended by Ctrl-C.
	ErrInterrupted = errors.New("interrupted")
	// ErrBroken means that an invariant is violated, which the last line of the run describes.
	ErrBroken = errors.New("an invariant is broken")
)

// printEnd prints the last line of a run that failed or was interrupted before its verdict, and
// returns the error of the run.
func printEnd(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		if !errors.Is(err, ErrInterrupted) { // the run had nothing to clean up
			err = fmt.Errorf("%w; the platform runs on (make status, make down)", ErrInterrupted)
		}
		fmt.Println(name + " " + err.Error())
	case !errors.Is(err, ErrBroken):
		fmt.Println(name + " FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}

// ExitCode returns 130 after an interrupt, as shells do, and 1 after any other failure.
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

// Verdict is the result of judging a run of a demo.
type Verdict interface {
	OK() bool
	// Line returns the last line that the run prints.
	Line() string
}

// Main runs a demo on the checkout's platform, prints its last line and exits. It reads the demo's
// settings C from the environment.
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

// CheckFaultKind returns an error if the setting BREAK is neither empty nor in known.
func CheckFaultKind(kind string, known []string) error {
	if kind != "" && !slices.Contains(known, kind) {
		return fmt.Errorf("BREAK=%q: must be %s", kind, strings.Join(known, " or "))
	}
	return nil
}

// Demo is one run of a demo; V is the type of its verdict.
type Demo[V Verdict] interface {
	// Play runs the demo. It returns when no request is in progress any more, or after a time limit.
	Play(ctx context.Context) error
	// InjectFault damages the stored data directly, to show that Judge detects the fault.
	InjectFault(ctx context.Context, fault string) error
	Judge(ctx context.Context) (V, audit.Findings, error)
	// Report returns what this demo adds to the report.
	Report(ctx context.Context, v V) (*Report, error)
	// WriteReport completes the report and writes it into the folder dir. Every Demo embeds Stage,
	// which has this method.
	WriteReport(r *Report, v Verdict, findings []string, dir string) error
}

// Run plays a demo, injects the fault if it is not empty, judges the run, writes report.html and
// report.json into the folder dir, and prints the last line.
func Run[V Verdict](ctx context.Context, d Demo[V], fault, dir string) error {
	if err := d.Play(ctx); err != nil {
		return err
	}
	if fault != "" {
		fmt.Printf("damaging the stores on purpose (BREAK=%s)\n", fault)
		if err := d.InjectFault(ctx, fault); err != nil {
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

// Publish prints the tables of a run and writes its report into the folder dir.
func Publish[V Verdict](ctx context.Context, d Demo[V], v V, findings audit.Findings, dir string) error {
	r, err := d.Report(ctx, v)
	if err != nil {
		return err
	}
	return d.WriteReport(r, v, findings, dir)
}

// RunState is whether a run still has visitors, or requests in progress.
type RunState int

// The states of a run, in the order in which they occur.
const (
	Acting   RunState = iota // visitors send requests
	Settling                 // all visitors have gone, but some of their requests are in progress
	Settled
)

// ReadState returns the state of a run and, while it is Settling, how much is left to be done.
type ReadState func(ctx context.Context) (state RunState, left int64, err error)

// Watch calls readState at intervals until it returns Settled. If it returns Settling and nothing
// gets done for as long as limit, Watch calls onLate and returns.
func Watch(ctx context.Context, every, limit time.Duration, readState ReadState, onLate func()) error {
	var deadline <-chan time.Time
	least := int64(math.MaxInt64)
	for tick := time.Tick(every); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			onLate()
			return nil
		case <-tick:
		}
		state, left, err := readState(ctx)
		switch {
		case err != nil:
			return err
		case state == Settled:
			return nil
		case state == Settling && left < least:
			least, deadline = left, time.After(limit)
		}
	}
}

// Closed reports whether a channel is closed. Nothing may ever be sent to the channel.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
