package redis

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	pkgredis "urr.guru/pkg/redis"
	"urr.guru/services/queue/internal/line"
)

//go:embed lua/schedule/claim.lua
var claimSource string

//go:embed lua/schedule/report.lua
var reportSource string

var _ line.Schedule = (*tickSchedule)(nil)

// tickSchedule stores in Redis which lines are due for a tick. The hash tag of its keys is the name
// of the registry, so that both are on one node of a cluster.
type tickSchedule struct {
	client        redis.UniversalClient
	claim, report *redis.Script
	keys          []string
	now           func() string // "" = Redis's clock
}

func newTickSchedule(client redis.UniversalClient, registry string, now func() string) *tickSchedule {
	s := &tickSchedule{client: client, claim: redis.NewScript(claimSource), report: redis.NewScript(reportSource), keys: []string{registry}, now: now}
	for _, name := range []string{"due", "busy", "reports", "reported", "run"} {
		s.keys = append(s.keys, lineKey(registry, name))
	}
	return s
}

// storedReport is the JSON form of a line.TickReport in Redis. Replicas of other releases read it
// too, so fields may only be added.
type storedReport struct {
	State line.LineState       `json:"state"`
	Tick  line.AdmissionResult `json:"tick"`
	// Age is the state's age in ms when it was reported.
	Age int64 `json:"age"`
}

func (s *tickSchedule) ClaimTicks(ctx context.Context, r line.TickRequest) (line.TickPlan, error) {
	args := []any{s.now(), r.Lease.Milliseconds(), r.BusyFor.Milliseconds(), r.Since, len(r.Busy)}
	for _, id := range r.Busy {
		args = append(args, id)
	}
	for _, id := range r.Skip {
		args = append(args, id)
	}
	v, err := s.claim.Run(ctx, s.client, s.keys, args...).Slice()
	if err != nil {
		return line.TickPlan{}, pkgredis.Err(fmt.Errorf("claim ticks: %w", err))
	}
	plan, err := parsePlan(v)
	if err != nil {
		return line.TickPlan{}, fmt.Errorf("claim ticks: %w", err)
	}
	return plan, nil
}

func parsePlan(v []any) (p line.TickPlan, err error) {
	if len(v) != 4 {
		return p, fmt.Errorf("unexpected %v", v)
	}
	var ok bool
	if p.Now, ok = v[0].(int64); !ok {
		return p, fmt.Errorf("time is %T", v[0])
	}
	if p.Due, err = parseStrings(v[1]); err != nil {
		return p, err
	}
	if p.Busy, err = parseStrings(v[2]); err != nil {
		return p, err
	}
	flat, ok := v[3].([]any)
	if !ok || len(flat)%3 != 0 {
		return p, fmt.Errorf("reports are %v", v[3])
	}
	for i := 0; i < len(flat); i += 3 {
		at, ok := flat[i+2].(int64)
		if !ok {
			return p, fmt.Errorf("report's time is %T", flat[i+2])
		}
		id, err := parseStrings(flat[i : i+2])
		if err != nil {
			return p, err
		}
		var r storedReport
		if json.Unmarshal([]byte(id[1]), &r) != nil {
			continue // written by a replica of another release
		}
		p.Reports = append(p.Reports, line.TickReport{EventID: id[0], State: r.State, Tick: r.Tick, AgeMS: r.Age + max(0, p.Now-at)})
	}
	return p, nil
}

// parseStrings converts an array of strings.
func parseStrings(v any) ([]string, error) {
	parts, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("an array expected, not %T", v)
	}
	out := make([]string, len(parts))
	for i, p := range parts {
		if out[i], ok = p.(string); !ok {
			return nil, fmt.Errorf("a string expected, not %T", p)
		}
	}
	return out, nil
}

func (s *tickSchedule) ReportTicks(ctx context.Context, r line.TickResults) error {
	args := []any{s.now(), r.BusyFor.Milliseconds()}
	for _, t := range r.Reports {
		t.State.BegunNow = false // Fresh is for the caller that began the epoch only
		raw, err := json.Marshal(storedReport{State: t.State, Tick: t.Tick, Age: t.AgeMS})
		if err != nil {
			return fmt.Errorf("report ticks: %w", err)
		}
		args = append(args, t.EventID, raw, t.IdleFor.Milliseconds())
	}
	if err := s.report.Run(ctx, s.client, s.keys, args...).Err(); err != nil {
		return pkgredis.Err(fmt.Errorf("report ticks: %w", err))
	}
	return nil
}
