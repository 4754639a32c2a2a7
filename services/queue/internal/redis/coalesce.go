package redis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/batch"
	"urr.guru/services/queue/internal/line"
)

const (
	// perScript bounds the claims of one script call: Redis does nothing else meanwhile (some 15 µs each).
	perScript = 64
	// perPipeline bounds the looks of one pipeline.
	perPipeline = 1000
	// inflight is how many batches of a kind are under way at once. Redis does one thing at a time, so a few keep it busy, and what
	// arrives meanwhile shares the next: the fixed costs of a script (100 µs) and of a round trip are paid once for all of it.
	inflight = 4
	// queued is how many pieces may wait for that; beyond it they are refused at once.
	queued = 4096
	// patience is how long one batch may take.
	patience = time.Second
)

// piece is the claims of one call on one line.
type piece struct {
	eventID string
	memory  line.Memory
	claims  []line.Claim
}

type checked struct {
	state    line.State
	outcomes []line.Outcome
}

// coalesce joins what concurrent calls ask.
func (s *Store) coalesce() {
	cfg := batch.Config{Max: perScript, Inflight: inflight, Queue: queued, Timeout: patience}
	s.checks = batch.NewItems(cfg, s.checkPieces)
	s.looks = batch.NewItems(cfg, s.lookPieces)
}

// Close waits for what is under way.
func (s *Store) Close(ctx context.Context) error {
	err := s.checks.Close(ctx)
	return cmp.Or(s.looks.Close(ctx), err)
}

// checkPieces runs one script for as many pieces of a line as fit, lines side by side. A line's failure is its own.
func (s *Store) checkPieces(ctx context.Context, pieces []piece) ([]batch.Result[checked], error) {
	out := make([]batch.Result[checked], len(pieces))
	byEvent := make(map[string][]int)
	for i, p := range pieces {
		byEvent[p.eventID] = append(byEvent[p.eventID], i)
	}
	var g errgroup.Group
	for _, positions := range byEvent {
		g.Go(func() error {
			for len(positions) > 0 {
				n := fitting(pieces, positions)
				s.checkTogether(ctx, pieces, positions[:n], out)
				positions = positions[n:]
			}
			return nil
		})
	}
	return out, g.Wait()
}

// fitting is how many of the pieces go into one script; at least one.
func fitting(pieces []piece, positions []int) int {
	claims := 0
	for n, i := range positions {
		claims += len(pieces[i].claims)
		if n > 0 && claims > perScript {
			return n
		}
	}
	return len(positions)
}

func (s *Store) checkTogether(ctx context.Context, pieces []piece, positions []int, out []batch.Result[checked]) {
	var claims []line.Claim
	var memory line.Memory
	for _, i := range positions {
		claims = append(claims, pieces[i].claims...)
		if m := pieces[i].memory; m.Epoch > memory.Epoch || m.Epoch == memory.Epoch && m.Rev >= memory.Rev {
			memory = m
		}
	}
	state, outcomes, err := s.check(ctx, pieces[positions[0]].eventID, memory, claims)
	for _, i := range positions {
		if err != nil {
			out[i].Err = err
			continue
		}
		n := len(pieces[i].claims)
		out[i].Value = checked{state: state, outcomes: outcomes[:n:n]}
		outcomes = outcomes[n:]
	}
}

// lookPieces reads what several calls look for in one go.
func (s *Store) lookPieces(ctx context.Context, pieces [][]line.Look) ([]batch.Result[[]line.Sight], error) {
	all := slices.Concat(pieces...)
	sights := make([]line.Sight, 0, len(all))
	for part := range slices.Chunk(all, perPipeline) {
		found, err := s.look(ctx, part)
		if err != nil {
			return nil, err
		}
		sights = append(sights, found...)
	}
	out := make([]batch.Result[[]line.Sight], len(pieces))
	for i, p := range pieces {
		out[i].Value = sights[:len(p):len(p)]
		sights = sights[len(p):]
	}
	return out, nil
}
