package bench

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed sql/*.sql
var plainSQL embed.FS

// pgbench is a run of the program pgbench with one of our SQL scripts. Each client has one session.
type pgbench struct {
	url, script string
	variables   map[string]any
	clients     int
	// each is the number of measured transactions per client. Before them, warmUp transactions are not
	// measured: in these, a session also prepares the statements and reads the catalogs.
	each, warmUp int
}

// transactions returns the number of all transactions of a run, with those of the warm-up.
func (p pgbench) transactions() int { return p.clients * (p.warmUp + p.each) }

// perTransaction runs pgbench, and returns the elapsed time per measured transaction in µs.
func (p pgbench) perTransaction(ctx context.Context) (µs float64, err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source, err := plainSQL.ReadFile("sql/" + p.script)
	if err != nil {
		return 0, err
	}
	script := filepath.Join(dir, p.script)
	if err := os.WriteFile(script, source, 0o600); err != nil {
		return 0, err
	}
	args := []string{
		"-n", "-M", "prepared", "-c", strconv.Itoa(p.clients), "-j", "2", "-t", strconv.Itoa(p.warmUp + p.each), "-f", script,
		"-l", "--log-prefix=" + filepath.Join(dir, "done"), "-D", "i=-1", "-D", "clients=" + strconv.Itoa(p.clients),
	}
	for name, value := range p.variables {
		args = append(args, "-D", fmt.Sprintf("%s=%v", name, value))
	}
	out, err := exec.CommandContext(ctx, "pgbench", append(args, p.url)...).CombinedOutput()
	if err == nil && !bytes.Contains(out, fmt.Appendf(nil, "actually processed: %d/%d\n", p.transactions(), p.transactions())) {
		err = errors.New("transactions failed")
	}
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	ended, err := readEndTimes(filepath.Join(dir, "done*"))
	if err != nil {
		return 0, err
	}
	if len(ended) != p.transactions() {
		return 0, fmt.Errorf("pgbench logged %d transactions, not %d", len(ended), p.transactions())
	}
	first := p.clients * p.warmUp
	took := ended[len(ended)-1].Sub(ended[first])
	return float64(took.Microseconds()) / float64(len(ended)-1-first), nil
}

// readEndTimes reads from pgbench's logs when transactions ended, and returns these times sorted.
func readEndTimes(pattern string) ([]time.Time, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var ended []time.Time
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			var client, transaction, took, script string
			var s, µs int64 // seconds and microseconds of the time when the transaction ended
			if _, err := fmt.Sscan(line, &client, &transaction, &took, &script, &s, &µs); err != nil {
				return nil, fmt.Errorf("pgbench logged %q: %w", line, err)
			}
			ended = append(ended, time.Unix(s, µs*1000))
		}
	}
	slices.SortFunc(ended, time.Time.Compare)
	return ended, nil
}

// measureSeatsBaseline measures the baseline of the row seat_hold: pgbench runs the SQL of a hold.
func (s *holdRows) measureSeatsBaseline(ctx context.Context) (float64, map[string]float64, error) {
	return s.measurePgbench(ctx, pgbench{script: "seat_hold.sql", variables: map[string]any{"per_row": seatsPerRow}, each: plainHolds / buyers})
}

// measureAdmissionsBaseline measures the baseline of the row general_admission by pgbench.
func (s *holdRows) measureAdmissionsBaseline(ctx context.Context) (float64, map[string]float64, error) {
	return s.measurePgbench(ctx, pgbench{script: "general_admission.sql", variables: map[string]any{}, each: plainAdmissions / buyers})
}

// measurePgbench runs a pgbench script that holds places of section B. It returns µs per hold.
func (s *holdRows) measurePgbench(ctx context.Context, p pgbench) (float64, map[string]float64, error) {
	p.url, p.clients, p.warmUp = s.url, buyers, p.each/4
	first, err := s.reservePlaces(ctx, "B", int64(p.transactions()))
	if err == nil {
		err = awaitPublished(ctx, s.db)
	}
	if err != nil {
		return 0, nil, err
	}
	p.variables["first"], p.variables["event"], p.variables["base"] = first, s.event, time.Now().Unix()<<16
	µs, err := p.perTransaction(ctx)
	return µs, nil, err
}
