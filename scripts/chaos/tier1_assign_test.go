package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// assignPoints are the failpoints of assign: before and after positions are issued, while their
// records are stored, and before the visitors are answered.
var assignPoints = []string{"vwr.before_counter", "vwr.after_counter", "vwr.record_stored", "vwr.records_stored"}

// assignSize is the size of a run: visitors per failpoint, concurrent calls of each, and rounds.
type assignSize struct {
	visitors, calls, rounds int
}

var (
	longAssign  = assignSize{visitors: 60, calls: 20, rounds: 6}
	shortAssign = assignSize{visitors: 6, calls: 20, rounds: 1}
)

// TestTier1KeepsItsPositions kills a replica at each failpoint of assign, while each visitor calls
// two replicas many times at once, and DynamoDB refuses statements and loses responses. No position
// has two holders. Each visitor keeps the one position that it was given, with and without its
// ticket. Then the room is closed and opened again: nothing of the old round counts.
func TestTier1KeepsItsPositions(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size := shortAssign
	if *full {
		size = longAssign
	}
	r := &assignRun{size: size, tier1: setupTier1(t, 2, rng, fmt.Sprintf("assign-%d", seed), harness.Options{Services: []string{platform.Gateway}, AWS: true})}
	for round := range size.rounds {
		r.DynamoDB().Use(r.failStatements)
		st := r.activate(&vwrv1.ActivateRequest{})
		require.Zero(t, st.GetNextPosition())
		r.holders = make(map[int64]string)
		for i, point := range assignPoints {
			r.dieAt(i%r.replicas, point)
		}
		r.requireKept(round + 1)
		r.t.Logf("%d visitors, %d deaths, %d answers, %d of them refused", len(r.answered), r.deaths, r.answers, r.refused)
		old := r.answered
		r.answered = nil
		r.deactivate()
		r.requireForgotten(old)
	}
	r.oldTokensDoNotCount()
}

type assignRun struct {
	*tier1

	size     assignSize
	answered []*guest
	holders  map[int64]string
	deaths   int

	mu               sync.Mutex
	answers, refused int
}

// failStatements makes one in ten inserts of a record fail, some of them after they are stored, and
// loses one in twenty responses.
func (r *assignRun) failStatements(c awsproxy.Call) awsproxy.Fault {
	f := awsproxy.Fault{Lost: c.Statements() > 0 && r.below(20) == 0, Statements: map[int]awsproxy.StatementFault{}}
	for i := range c.Statements() {
		switch r.below(20) {
		case 0:
			f.Statements[i] = awsproxy.StatementFault{Code: awsproxy.Capacity}
		case 1:
			f.Statements[i] = awsproxy.StatementFault{Code: awsproxy.Internal, Executed: r.below(2) == 0}
		}
	}
	return f
}

// dieAt lets new visitors call both replicas at once until one has died at a failpoint, and
// continues until each call is answered.
func (r *assignRun) dieAt(replica int, point string) {
	r.t.Helper()
	s := r.Service(platform.VWR)
	s.RestartWithFailpoints(replica, point+"@"+strconv.Itoa(1+r.below(3))+"=exit")
	var work sync.WaitGroup
	guests := r.newGuests(r.size.visitors)
	for i, g := range guests {
		for call := range r.size.calls {
			pause := time.Duration(r.below(200)) * time.Millisecond
			work.Go(func() {
				loop.Sleep(r.t.Context(), pause)
				r.assign(g, (i+call)%r.replicas)
			})
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work.Wait()
	}()
	// The calls may all be answered before the replica dies. Then more visitors come until it does.
	for s.Running(replica) {
		extra := r.newGuests(1)[0]
		r.assign(extra, r.below(r.replicas))
		guests = append(guests, extra)
	}
	r.deaths++
	s.Start(replica)
	<-done
	for _, g := range guests {
		require.Positive(r.t, g.position)
		require.Empty(r.t, r.holders[g.position], "position %d has two holders", g.position)
		r.holders[g.position] = g.id
	}
	r.answered = append(r.answered, guests...)
}

// assign asks the replicas one after another for a position, until there is an answer. All answers
// to a visitor must be the same.
func (r *assignRun) assign(g *guest, replica int) {
	for ctx := r.t.Context(); ctx.Err() == nil; replica++ {
		out, err := r.visitors[replica%r.replicas].Assign(ctx, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{
			{Caller: &commonv1.Caller{AnonId: g.id}, EventId: r.eventID},
		}})
		if err == nil && out.GetResults()[0].GetAssigned() != nil {
			r.recordAnswer(g, out.GetResults()[0].GetAssigned())
			return
		}
		if err == nil && !retryable(out.GetResults()[0].GetProblem()) {
			r.t.Errorf("%s was refused: %v", g.id, out.GetResults()[0].GetProblem())
			return
		}
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
		loop.Sleep(ctx, 20*time.Millisecond)
	}
}

func (r *assignRun) recordAnswer(g *guest, a *vwrv1.Assigned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers++
	if g.position != 0 && (g.position != a.GetPosition() || g.requestID != a.GetRequestId()) {
		r.t.Errorf("%s was told the positions %d and %d", g.id, g.position, a.GetPosition())
	}
	g.requestID, g.ticket, g.position = a.GetRequestId(), a.GetTicket(), a.GetPosition()
}

// check asks a replica for the position of a guest, with or without the ticket.
func (r *assignRun) check(g *guest, ticket string, replica int) (got *vwrv1.CheckResult) {
	r.t.Helper()
	r.Eventually(func(ctx context.Context) error {
		out, err := r.visitors[replica].Check(ctx, &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{
			{Caller: &commonv1.Caller{AnonId: g.id}, EventId: r.eventID, RequestId: g.requestID, Ticket: ticket},
		}})
		if err == nil {
			if got = out.GetResults()[0]; retryable(got.GetProblem()) {
				err = fmt.Errorf("refused: %v", got.GetProblem())
			}
		}
		return err
	})
	return got
}

// requireKept restarts all replicas, and requires that each visitor still has its position.
func (r *assignRun) requireKept(replica int) {
	r.t.Helper()
	for i := range r.replicas {
		r.Service(platform.VWR).Kill(i)
	}
	for i := range r.replicas {
		r.Service(platform.VWR).Start(i)
	}
	again := make([]*guest, len(r.answered))
	for i, g := range r.answered {
		again[i] = &guest{id: g.id}
	}
	r.enter(again)
	for i, g := range r.answered {
		require.Equal(r.t, g.position, again[i].position, "%s has another position", g.id)
		require.Equal(r.t, g.requestID, again[i].requestID)
		for _, ticket := range []string{g.ticket, ""} {
			got := r.check(g, ticket, (i+replica)%r.replicas)
			require.Equal(r.t, g.position, got.GetChecked().GetPosition(), "%s, with a ticket: %v", g.id, ticket != "")
		}
	}
}

// requireForgotten opens the room again, and requires that no visitor of the last round has a
// position in the new one.
func (r *assignRun) requireForgotten(old []*guest) {
	r.t.Helper()
	r.activate(&vwrv1.ActivateRequest{})
	for i := range r.replicas { // each replica sees the new round at its next read
		r.Eventually(func(context.Context) error {
			if got := r.check(old[0], old[0].ticket, i); got.GetChecked() != nil {
				return fmt.Errorf("replica %d is still in the old round: %v", i, got)
			}
			return nil
		})
	}
	for i, g := range old {
		for _, ticket := range []string{g.ticket, ""} {
			got := r.check(g, ticket, i%r.replicas)
			require.Equal(r.t, errs.ErrVWRRequestUnknown.Reason, got.GetProblem().GetReason(), "%v", got)
		}
	}
	again := &guest{id: old[len(old)-1].id}
	r.DynamoDB().Use(nil) // a record that is refused leaves a gap
	r.enter([]*guest{again})
	require.Equal(r.t, int64(1), again.position, "the first of the new round")
	require.NotEqual(r.t, old[len(old)-1].requestID, again.requestID)
	r.deactivate()
}

// oldTokensDoNotCount requires that the gateway accepts a token of the current round, and refuses
// one of an earlier round.
func (r *assignRun) oldTokensDoNotCount() {
	r.t.Helper()
	r.activate(&vwrv1.ActivateRequest{})
	visitor, page := r.Visitor(), "/events/"+r.eventID
	r.awaitTurnedAway(visitor, page, true)
	var a struct {
		RequestID string `json:"requestId"`
		Ticket    string `json:"ticket"`
	}
	visitor.MustCall(r.t.Context(), http.MethodPost, "/vwr-api/vwr/assign/"+r.eventID, nil, &a)
	r.act(func(ctx context.Context, c vwrv1.VwrAdminServiceClient) (*vwrv1.VwrStatus, error) {
		return c.Advance(ctx, &vwrv1.AdvanceRequest{Caller: roomOperator, EventId: r.eventID})
	})
	r.Eventually(func(ctx context.Context) error { // the answer sets the cookie with the token
		var checked struct {
			Admitted bool `json:"admitted"`
		}
		got, err := visitor.With("X-Vwr-Ticket", a.Ticket).Call(ctx, http.MethodGet, "/vwr-api/vwr/check/"+r.eventID+"/"+a.RequestID, nil)
		if err == nil {
			err = got.Decode(&checked)
		}
		if err == nil && !checked.Admitted {
			err = fmt.Errorf("not admitted: %d %s", got.Status, got.Body)
		}
		return err
	})
	r.awaitTurnedAway(visitor, page, false)
	r.deactivate()
	r.activate(&vwrv1.ActivateRequest{})
	r.awaitTurnedAway(visitor, page, true)
}

// awaitTurnedAway waits until the gateway, which follows the vwr service's state, sends a visitor
// to the waiting room or, if want is false, does not.
func (r *assignRun) awaitTurnedAway(visitor *harness.Client, page string, want bool) {
	r.t.Helper()
	r.Eventually(func(ctx context.Context) error {
		a, err := visitor.Call(ctx, http.MethodGet, page, nil)
		if err == nil && (a.Code() == errs.ErrVWRTokenRequired.Reason) != want {
			err = fmt.Errorf("%s: %d %s", page, a.Status, a.Body)
		}
		return err
	})
}
