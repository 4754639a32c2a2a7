// Package redis stores the lines in Redis. One Lua script (lua/) makes each decision. It gets all
// keys of the line and uses Redis's time. Plain reads are pipelined.
package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/batch"
	pkgredis "urr.guru/pkg/redis"
	"urr.guru/services/queue/internal/line"
)

var _ line.Store = (*Store)(nil)

// Store keeps the lines in one Redis or one Redis Cluster. It is safe for concurrent use.
type Store struct {
	*tickSchedule

	client   redis.UniversalClient
	scripts  map[string]*redis.Script
	registry string
	clock    func() time.Time // nil = Redis's clock
	timeout  time.Duration    // the time limit of one batch
	checks   *batch.Groups[string, checkRequest, checkResult]
	queries  *batch.Groups[string, []line.MemberQuery, []line.MemberState]
}

// Option is a setting of a Store that only tests change.
type Option func(*Store)

// WithClock makes scripts use the time that now returns instead of Redis's time.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.clock = now } }

// WithRegistry replaces the Redis key of the registry of active events.
func WithRegistry(key string) Option { return func(s *Store) { s.registry = key } }

// WithTimeout replaces the time limit of one batch, since a busy machine may exceed it.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// NewStore makes a Store. The lines in it follow the rules.
func NewStore(client redis.UniversalClient, rules line.Rules, opts ...Option) (*Store, error) {
	scripts, err := compileScripts(rules)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, scripts: scripts, registry: registryKey, timeout: batchTimeout}
	for _, o := range opts {
		o(s)
	}
	s.tickSchedule = newTickSchedule(client, s.registry, s.scriptTime)
	s.setUpBatches()
	return s, nil
}

// runScript runs a script on a line. extraKeys are keys besides those that every script gets.
func (s *Store) runScript(ctx context.Context, script, eventID string, extraKeys []string, args []any) (scriptReply, error) {
	v, err := s.scripts[script].Run(ctx, s.client, append(keysOf(eventID), extraKeys...), args...).Result()
	if err != nil {
		return scriptReply{}, pkgredis.Err(fmt.Errorf("%s: %w", script, err))
	}
	r, err := parseReply(v)
	if err != nil {
		return scriptReply{}, fmt.Errorf("%s: %w", script, err)
	}
	return r, nil
}

func (s *Store) scriptArgs(known line.KnownState, begin bool) []any {
	return appendArguments(nil, callArguments, &call{now: s.scriptTime(), known: known, begin: begin})
}

func (s *Store) scriptTime() string {
	if s.clock == nil {
		return ""
	}
	return strconv.FormatInt(s.clock().UnixMicro(), 10)
}

// randomSeed returns 128 random bits, from which a script derives slot ids.
func randomSeed() string { return rand.Text() }

func (s *Store) Check(ctx context.Context, eventID string, known line.KnownState, claims []line.PlaceClaim) (line.LineState, []line.ClaimOutcome, error) {
	out, err := s.checks.Do(ctx, eventID, checkRequest{known: known, claims: claims})
	return out.state, out.outcomes, err
}

func (s *Store) runCheck(ctx context.Context, eventID string, known line.KnownState, claims []line.PlaceClaim) (line.LineState, []line.ClaimOutcome, error) {
	var tier1 positionKeys
	begin := false
	items := make([]any, 0, 13*len(claims))
	for _, c := range claims {
		begin = begin || c.Begin || c.Ticket != nil || c.Entry != nil
		items = appendArguments(items, claimArguments, &claimCall{PlaceClaim: c, keyIndex: tier1.indexOf(eventID, c.Tier1)})
	}
	args := append(append(s.scriptArgs(known, begin), randomSeed()), items...)
	r, err := s.runScript(ctx, scriptCheck, eventID, tier1.keys, args)
	if err != nil {
		return line.LineState{}, nil, err
	}
	out, err := r.parseOutcomes(len(claims))
	return r.state, out, err
}

func (s *Store) Release(ctx context.Context, eventID string, known line.KnownState, userID, slotID string) (line.LineState, bool, error) {
	return s.runBool(ctx, scriptRelease, eventID, append(s.scriptArgs(known, false), userID, slotID))
}

// anySlot as a slot's id means the user's slot, whatever its id.
const anySlot = "*"

func (s *Store) Revoke(ctx context.Context, eventID string, known line.KnownState, userID string) (line.LineState, bool, error) {
	return s.Release(ctx, eventID, known, userID, anySlot)
}

func (s *Store) Hold(ctx context.Context, eventID string, known line.KnownState, h line.SeatHold) (line.LineState, bool, error) {
	until := int64(0)
	if !h.Until.IsZero() {
		until = h.Until.UnixMilli()
	}
	return s.runBool(ctx, scriptHold, eventID, append(s.scriptArgs(known, false), h.UserID, h.SlotID, until, h.ReservationID))
}

// runBool runs a script whose reply says whether it has changed something.
func (s *Store) runBool(ctx context.Context, script, eventID string, args []any) (line.LineState, bool, error) {
	r, err := s.runScript(ctx, script, eventID, nil, args)
	if err != nil {
		return line.LineState{}, false, err
	}
	n, err := r.parseInts(1)
	if err != nil {
		return line.LineState{}, false, fmt.Errorf("%s: %w", script, err)
	}
	return r.state, n[0] == 1, nil
}

func (s *Store) Peek(ctx context.Context, eventID string, known line.KnownState) (line.LineState, error) {
	st, _, err := s.runBool(ctx, scriptSet, eventID, append(s.scriptArgs(known, false), ""))
	return st, err
}

func (s *Store) Open(ctx context.Context, eventID string, known line.KnownState) (line.LineState, error) {
	st, _, err := s.runBool(ctx, scriptSet, eventID, append(s.scriptArgs(known, true), "open"))
	return st, err
}

func (s *Store) ApplySettings(ctx context.Context, eventID string, known line.KnownState, set line.Settings, readAt int64) (line.LineState, error) {
	st, _, err := s.runBool(ctx, scriptSet, eventID, appendSettings(s.scriptArgs(known, false), set, readAt))
	return st, err
}

func (s *Store) Block(ctx context.Context, eventID string, known line.KnownState, users []string) (line.LineState, error) {
	args := append(s.scriptArgs(known, false), "block")
	for _, user := range users {
		args = append(args, user)
	}
	st, _, err := s.runBool(ctx, scriptSet, eventID, args)
	return st, err
}

func (s *Store) Entitle(ctx context.Context, eventID string, known line.KnownState, answers []line.EntitlementAnswer) (line.LineState, error) {
	args := s.scriptArgs(known, false)
	for _, a := range answers {
		args = append(args, a.UserID, flagArg(a.Entitled))
	}
	r, err := s.runScript(ctx, scriptEntitle, eventID, nil, args)
	return r.state, err
}

func (s *Store) Admit(ctx context.Context, eventID string, known line.KnownState) (line.LineState, line.AdmissionResult, error) {
	r, err := s.runScript(ctx, scriptAdmit, eventID, nil, append(s.scriptArgs(known, false), randomSeed()))
	if err != nil {
		return line.LineState{}, line.AdmissionResult{}, err
	}
	n, err := r.parseInts(5)
	if err != nil {
		return line.LineState{}, line.AdmissionResult{}, fmt.Errorf("admit: %w", err)
	}
	return r.state, line.AdmissionResult{Admitted: n[0], Parked: n[1], More: n[2] == 1, Silent: n[3] == 1, Kept: n[4]}, nil
}

func (s *Store) Clean(ctx context.Context, eventID string, known line.KnownState) (line.LineState, int64, bool, error) {
	r, err := s.runScript(ctx, scriptCleanup, eventID, nil, s.scriptArgs(known, false))
	if err != nil {
		return line.LineState{}, 0, false, err
	}
	n, err := r.parseInts(2)
	if err != nil {
		return line.LineState{}, 0, false, fmt.Errorf("cleanup: %w", err)
	}
	return r.state, n[0], n[1] == 1, nil
}

func (s *Store) ListEvents(ctx context.Context) ([]string, error) {
	ids, err := s.client.SMembers(ctx, s.registry).Result()
	return ids, pkgredis.Err(err)
}

func (s *Store) AddEvents(ctx context.Context, eventIDs ...string) error {
	members := make([]any, len(eventIDs))
	for i, id := range eventIDs {
		members[i] = id
	}
	return pkgredis.Err(s.client.SAdd(ctx, s.registry, members...).Err())
}

func (s *Store) RemoveEvent(ctx context.Context, eventID string) error {
	return pkgredis.Err(s.client.SRem(ctx, s.registry, eventID).Err())
}

func (s *Store) Ping(ctx context.Context) error { return pkgredis.Err(s.client.Ping(ctx).Err()) }
