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
	// maxClaimsPerScript bounds the claims of one script call. Redis does nothing else while it runs:
	// about 15 µs per claim.
	maxClaimsPerScript    = 64
	maxQueriesPerPipeline = 1000 // how many visitors are looked up in one pipeline
	// maxInflight bounds a line's parallel batches of one kind (checks or look-ups). A few keep Redis
	// busy, since it is single-threaded. Calls that arrive meanwhile share the next batch and its
	// fixed costs (100 µs per script, and a round trip).
	maxInflight = 4
	maxQueued   = 4096 // how many calls of a line may wait for a batch; further calls fail immediately
	// maxLines bounds the lines that have calls in progress, since made-up ids cost script calls too.
	maxLines     = 4096
	batchTimeout = time.Second // bounds one batch
)

// checkRequest has the arguments of one call of Store.Check, to be batched with others.
type checkRequest struct {
	known  line.KnownState
	claims []line.PlaceClaim
}

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
		if m := p.known; m.Epoch > known.Epoch || m.Epoch == known.Epoch && m.Rev >= known.Rev {
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

// deadlineAsUnavailable turns the timeout of a batch into ErrUnavailable, since it is not the deadline
// of the caller.
func deadlineAsUnavailable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.ErrUnavailable.Wrap(err)
	}
	return err
}
