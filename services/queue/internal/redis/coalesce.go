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
	// maxClaimsPerScript is the most claims in one script call. Redis does nothing else while it runs,
	// about 15 µs per claim.
	maxClaimsPerScript    = 64
	maxQueriesPerPipeline = 1000 // the most visitors looked up in one pipeline
	// maxInflight is the most batches of one line and kind (checks or look-ups) that run at once. A
	// few keep the single-threaded Redis busy. Calls that arrive meanwhile share the next batch and
	// its fixed costs (100 µs per script, and a round trip).
	maxInflight = 4
	maxQueued   = 4096 // the most calls of a line that wait for a batch; further ones fail at once
	// maxLines is the most lines with calls in progress, since made-up ids cost script calls too.
	maxLines     = 4096
	batchTimeout = time.Second // the time limit of one batch
)

// checkRequest has the arguments of one call of Store.Check, which shares a batch with other calls.
type checkRequest struct {
	known  line.KnownState
	claims []line.PlaceClaim
}

// checkResult is the answer to a batch of checks on a line, with an outcome for each claimed slot.
type checkResult struct {
	state    line.LineState
	outcomes []line.ClaimOutcome
}

// setUpBatches sets up the batching of concurrent calls on the same line. Each line has its own
// batches, so that a line on a cluster node that hangs does not delay others.
func (s *Store) setUpBatches() {
	cfg := batch.Config{Max: maxClaimsPerScript, Inflight: maxInflight, Queue: maxQueued, Timeout: s.timeout}
	s.checks = batch.NewGroups(cfg, maxLines, s.runChecks)
	s.queries = batch.NewGroups(cfg, maxLines, s.runQueries)
}

func (s *Store) Close(ctx context.Context) error {
	err := s.checks.Close(ctx)
	return cmp.Or(s.queries.Close(ctx), err)
}

func (s *Store) runChecks(ctx context.Context, eventID string, requests []checkRequest) ([]batch.Result[checkResult], error) {
	out := make([]batch.Result[checkResult], len(requests))
	for from := 0; from < len(requests); {
		to := from + countFitting(requests[from:])
		s.checkBatch(ctx, eventID, requests[from:to], out[from:to])
		from = to
	}
	return out, nil
}

// countFitting returns how many of the requests fit into one script; at least one.
func countFitting(requests []checkRequest) int {
	claims := 0
	for n, p := range requests {
		claims += len(p.claims)
		if n > 0 && claims > maxClaimsPerScript {
			return n
		}
	}
	return len(requests)
}

func (s *Store) checkBatch(ctx context.Context, eventID string, requests []checkRequest, out []batch.Result[checkResult]) {
	var claims []line.PlaceClaim
	var known line.KnownState
	for _, p := range requests {
		claims = append(claims, p.claims...)
		if m := p.known; m.Epoch > known.Epoch || m.Epoch == known.Epoch && m.Revision >= known.Revision {
			known = m
		}
	}
	state, outcomes, err := s.runCheck(ctx, eventID, known, claims)
	for i, p := range requests {
		if err != nil {
			out[i].Err = deadlineAsUnavailable(err)
			continue
		}
		n := len(p.claims)
		out[i].Value = checkResult{state: state, outcomes: outcomes[:n:n]}
		outcomes = outcomes[n:]
	}
}

func (s *Store) runQueries(ctx context.Context, eventID string, requests [][]line.MemberQuery) ([]batch.Result[[]line.MemberState], error) {
	all := slices.Concat(requests...)
	members := make([]line.MemberState, 0, len(all))
	for chunk := range slices.Chunk(all, maxQueriesPerPipeline) {
		found, err := s.readMembers(ctx, eventID, chunk)
		if err != nil {
			return nil, deadlineAsUnavailable(err)
		}
		members = append(members, found...)
	}
	out := make([]batch.Result[[]line.MemberState], len(requests))
	for i, p := range requests {
		out[i].Value = members[:len(p):len(p)]
		members = members[len(p):]
	}
	return out, nil
}

// deadlineAsUnavailable turns the timeout of a batch into ErrUnavailable, since it is not the
// caller's deadline that has passed.
func deadlineAsUnavailable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.ErrUnavailable.Wrap(err)
	}
	return err
}
