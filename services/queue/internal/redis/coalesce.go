package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

const (
	// perScript bounds the claims of one script call: Redis does nothing else meanwhile (some 15 µs each).
	perScript = 64
	// perPipeline bounds the queries of one pipeline.
	perPipeline = 1000
	// inflight is how many batches of a kind a line has under way at once. Redis does one thing at a time, so a few keep it busy, and what
	// arrives meanwhile shares the next: the fixed costs of a script (100 µs) and of a round trip are paid once for all of it.
	inflight = 4
	// queued is how many pieces of a line may wait for that; beyond it they are refused at once.
	queued = 4096
	// linesMost is how many lines may be asked about at once. Anybody can make up ids, and each
	// costs a script.
	linesMost = 4096
	// patience is how long one batch may take.
	patience = time.Second
)

// piece is the claims of one call.
type piece struct {
	memory line.Memory
	claims []line.Claim
}

type checked struct {
	state    line.State
	outcomes []line.Outcome
}

// coalesce joins what concurrent calls ask of a line. Lines are apart from each other: one whose
// node of a cluster hangs delays no other.
func (s *Store) coalesce() {
	cfg := batch.Config{Max: perScript, Inflight: inflight, Queue: queued, Timeout: patience}
	s.checks = batch.NewGroups(cfg, linesMost, s.checkPieces)
	s.queries = batch.NewGroups(cfg, linesMost, s.queryPieces)
}

// Close waits for what is under way.
func (s *Store) Close(ctx context.Context) error {
	err := s.checks.Close(ctx)
	return cmp.Or(s.queries.Close(ctx), err)
}

// checkPieces runs one script for as many pieces as fit, one after the other.
func (s *Store) checkPieces(ctx context.Context, eventID string, pieces []piece) ([]batch.Result[checked], error) {
	out := make([]batch.Result[checked], len(pieces))
	for from := 0; from < len(pieces); {
		to := from + fitting(pieces[from:])
		s.checkTogether(ctx, eventID, pieces[from:to], out[from:to])
		from = to
	}
	return out, nil
}

// fitting is how many of the pieces go into one script; at least one.
func fitting(pieces []piece) int {
	claims := 0
	for n, p := range pieces {
		claims += len(p.claims)
		if n > 0 && claims > perScript {
			return n
		}
	}
	return len(pieces)
}

func (s *Store) checkTogether(ctx context.Context, eventID string, pieces []piece, out []batch.Result[checked]) {
	var claims []line.Claim
	var memory line.Memory
	for _, p := range pieces {
		claims = append(claims, p.claims...)
		if m := p.memory; m.Epoch > memory.Epoch || m.Epoch == memory.Epoch && m.Rev >= memory.Rev {
			memory = m
		}
	}
	state, outcomes, err := s.check(ctx, eventID, memory, claims)
	for i, p := range pieces {
		if err != nil {
			out[i].Err = tooSlow(err)
			continue
		}
		n := len(p.claims)
		out[i].Value = checked{state: state, outcomes: outcomes[:n:n]}
		outcomes = outcomes[n:]
	}
}

// queryPieces reads what several calls look for in one go.
func (s *Store) queryPieces(ctx context.Context, eventID string, pieces [][]line.MemberQuery) ([]batch.Result[[]line.MemberState], error) {
	all := slices.Concat(pieces...)
	members := make([]line.MemberState, 0, len(all))
	for part := range slices.Chunk(all, perPipeline) {
		found, err := s.readMembers(ctx, eventID, part)
		if err != nil {
			return nil, tooSlow(err)
		}
		members = append(members, found...)
	}
	out := make([]batch.Result[[]line.MemberState], len(pieces))
	for i, p := range pieces {
		out[i].Value = members[:len(p):len(p)]
		members = members[len(p):]
	}
	return out, nil
}

// tooSlow gives a batch's own deadline, which is none of its callers', a name that they know.
func tooSlow(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.ErrUnavailable.Wrap(err)
	}
	return err
}
