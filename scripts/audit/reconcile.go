package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// reconcile counts the differences between the ledger and the tables that belong to this run. Those
// of earlier runs, as of one that damaged the stores, are left out.
func (j *rewardsJudge) reconcile(ctx context.Context) error {
	found, err := parseReconcile(j.Reconcile(ctx))
	if err != nil {
		return err
	}
	for _, f := range found {
		if !j.owns(f.key) || f.kind == "undecided" { // its reward is not SUCCESS, or the ledger was read too early
			continue
		}
		j.Differences++
		j.Add("%s", f.line)
		switch f.kind {
		case "paid_twice":
			j.PaidTwice++
		case "success_not_paid":
			j.Unpaid++
		}
	}
	return nil
}

// owns reports whether a key is of one of the campaigns.
func (r *RewardsRun) owns(key string) bool {
	escaped := func(id string) string { return strings.ReplaceAll(id, "-", "%2D") }
	return strings.HasPrefix(key, "att-"+escaped(r.Attendance)+"-") || strings.HasPrefix(key, "rand-"+escaped(r.Random)+"-")
}

// reconcileFinding is a line of `reward reconcile`.
type reconcileFinding struct{ kind, key, line string }

// parseReconcile reads the output of `reward reconcile`. Exit codes above that of differences mean that
// nothing was compared.
func parseReconcile(output string, code int) ([]reconcileFinding, error) {
	const differences = 1
	if code != 0 && code != differences {
		return nil, fmt.Errorf("reconcile: exit code %d: %s", code, strings.TrimSpace(output))
	}
	var found []reconcileFinding
	complete := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if complete = strings.HasPrefix(line, "reconcile: "); complete {
			continue
		}
		f, err := parseFinding(line)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	if !complete {
		return nil, fmt.Errorf("reconcile: the output does not end with its counts: %q", output)
	}
	return found, nil
}

func parseFinding(line string) (reconcileFinding, error) {
	kind, rest, _ := strings.Cut(line, ": ")
	_, rest, found := strings.Cut(rest, "key ")
	quoted, err := strconv.QuotedPrefix(rest)
	if !found || err != nil {
		return reconcileFinding{}, fmt.Errorf("reconcile: unexpected line %q", line)
	}
	key, err := strconv.Unquote(quoted)
	return reconcileFinding{kind: kind, key: key, line: line}, err
}
