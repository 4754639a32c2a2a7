package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
)

func (r *Runner) Status(ctx context.Context, w io.Writer) error {
	supervisor, found, err := r.loadRecord(supervisorName)
	if err != nil {
		return err
	}
	supervised := found && supervisor.Alive()
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "SERVICE\tPID\tPORT\tREADY\tUP\tRESTARTS\tLAST EXIT")
	for _, s := range r.services {
		row, err := r.serviceRow(ctx, s)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(t, row)
	}
	_, _ = fmt.Fprintln(t, "\t\t\t\t\t\t\t\nBACKEND\tPID\tPORT\tREADY\tUP\tDATA\tRESTARTS\tLAST EXIT")
	for _, b := range backends.New(r.layout, true, r.say).Status(ctx) {
		if b.ForTests && b.PID == 0 {
			continue // only tests use this backend
		}
		_, _ = fmt.Fprintln(t, backendRow(b, supervised))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.anyRunning() && !supervised {
		_, err = fmt.Fprintln(w, "\nThe supervisor does not run: nothing restarts a service or a backend that ends. `make up` starts it again.")
	}
	return err
}

func (r *Runner) serviceRow(ctx context.Context, s platform.Service) (string, error) {
	rec, found, err := r.loadRecord(s.Name)
	if err != nil {
		return "", err
	}
	pid, ready, up := "-", "no", "-"
	if found && rec.Alive() {
		pid, up = strconv.Itoa(rec.PID), formatAge(rec.Started)
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if r.checkReady(ctx, s) == nil {
			ready = "yes"
		}
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s",
		s.Name, pid, r.layout.Port(s.Port), ready, up, describeRestarts(rec.Restarts, rec.Started), rec.LastExit), nil
}

func backendRow(b backends.BackendState, supervised bool) string {
	pid, ready, up := "-", "no", "-"
	switch {
	case b.PID != 0:
		pid, up = strconv.Itoa(b.PID), formatAge(b.Started)
	case b.Died && supervised:
		ready = "restarting"
	}
	if b.Ready {
		ready = "yes"
	}
	const mega = 1_000_000
	data := fmt.Sprintf("%d MB", (b.DataBytes+mega-1)/mega)
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s", b.Name, pid, b.Port, ready, up, data, describeRestarts(b.Restarts, b.Started), b.LastExit)
}

// describeRestarts formats the number of a process's restarts and the time of the last one.
func describeRestarts(n int, last time.Time) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, last at %s", n, last.Format(time.TimeOnly))
}

func (r *Runner) anyRunning() bool {
	for _, s := range r.services {
		if rec, found, err := r.loadRecord(s.Name); err == nil && found && rec.Alive() {
			return true
		}
	}
	return false
}

func formatAge(since time.Time) string { return time.Since(since).Round(time.Second).String() }

func (r *Runner) Logs(ctx context.Context, name string) error {
	path := r.layout.LogFile(name)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no log of %q: name a service (%v) or a backend, as in make logs S=queue", name, platform.Names())
	}
	cmd := exec.CommandContext(ctx, "tail", "-n", "200", "-F", path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// tail runs in its own process group: Ctrl-C reaches only this process, which then ends tail.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("follow %s: %w", path, err)
	}
	return nil
}
