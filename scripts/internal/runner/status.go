package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"text/tabwriter"
	"time"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
)

// Status prints a table of the services and one of the backends.
func (r *Runner) Status(ctx context.Context, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "SERVICE\tPID\tPORT\tREADY\tUP\tRESTARTS\tLAST EXIT")
	for _, s := range r.services {
		rec, found, err := r.load(s.Name)
		if err != nil {
			return err
		}
		pid, ready, up := "-", "no", "-"
		if found && rec.Alive() {
			pid, up = strconv.Itoa(rec.PID), age(rec.Started)
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			if r.ready(ctx, s) == nil {
				ready = "yes"
			}
			cancel()
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", s.Name, pid, r.layout.Port(s.Port), ready, up, rec.Restarts, rec.LastExit)
	}
	_, _ = fmt.Fprintln(t, "\t\t\t\t\t\t\nBACKEND\tPID\tPORT\tREADY\tUP\t\t")
	for _, b := range backends.New(r.layout, true, r.say).Status(ctx) {
		if b.ForTests && b.PID == 0 {
			continue // the platform does without
		}
		pid, ready, up := "-", "no", "-"
		if b.PID != 0 {
			pid, up = strconv.Itoa(b.PID), age(b.Started)
		}
		if b.Ready {
			ready = "yes"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t\t\n", b.Name, pid, b.Port, ready, up)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	supervisor, found, err := r.load(supervisorName)
	if err != nil {
		return err
	}
	if services := r.anyRunning(); services && (!found || !supervisor.Alive()) {
		_, err = fmt.Fprintln(w, "\nThe supervisor does not run: nothing restarts a service that ends. `make up` starts it again.")
	}
	return err
}

func (r *Runner) anyRunning() bool {
	for _, s := range r.services {
		if rec, found, err := r.load(s.Name); err == nil && found && rec.Alive() {
			return true
		}
	}
	return false
}

func age(since time.Time) string { return time.Since(since).Round(time.Second).String() }

// Logs follows a process's log until ctx ends.
func (r *Runner) Logs(ctx context.Context, name string) error {
	path := r.layout.Log(name)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no log of %q: name a service (%v) or a backend, as in make logs S=queue", name, platform.Names())
	}
	cmd := exec.CommandContext(ctx, "tail", "-n", "200", "-F", path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("follow %s: %w", path, err)
	}
	return nil
}
