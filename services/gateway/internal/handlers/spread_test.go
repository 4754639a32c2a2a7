package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/proof"
	"urr.guru/services/gateway/internal/roomstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// positions is a vwr service that counts positions by the second.
type positions struct {
	vwrv1.VwrServiceClient

	opened time.Time

	mu    sync.Mutex
	given map[int]int
}

func (p *positions) Assign(_ context.Context, req *vwrv1.AssignRequest, _ ...grpc.CallOption) (*vwrv1.AssignResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &vwrv1.AssignResponse{}
	for range req.GetItems() {
		p.given[int(time.Since(p.opened)/time.Second)]++
		out.Results = append(out.Results, &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Assigned{Assigned: &vwrv1.Assigned{}}})
	}
	return out, nil
}

// crowdRoom is a room whose start a crowd waits for, in a bubble of synctest.
type crowdRoom struct {
	*positions

	rooms   *RoomHandlers
	visitor *identity.Verifier
	match   edge.Match
}

const spreadSeconds = 10

// newTokens makes a Verifier, outside of the bubble: its caches have goroutines.
func newTokens(t *testing.T) *identity.Verifier {
	t.Helper()
	k := tokentest.KeySet(t, "a-secret-of-at-least-thirty-two-bytes")
	tokens, err := identity.New(identity.Keys{Session: k, Visitor: k, Tier1: k, Ticket: k, Entry: k}, 10, nil, time.Now)
	require.NoError(t, err)
	return tokens
}

func newCrowdRoom(t *testing.T, tokens *identity.Verifier, opens time.Time) *crowdRoom {
	t.Helper()
	state := roomstate.Disabled()
	state.ApplyCounter(&vwrv1.Counter{
		EventId: "e", Active: true, Round: 5, OpenedAt: opens.UnixMilli(), SpreadMs: spreadSeconds * 1000,
		Lobby: &vwrv1.Lobby{OpensAt: 1, ClosesAt: 2, StartsAt: opens.UnixMilli(), Sized: true},
	})
	cookies := identity.Cookies{Now: time.Now}
	table, err := edge.NewTable(&edge.Route{ID: "assign", Method: http.MethodPost, Pattern: "/assign/{event_id}", Access: edge.Visitor})
	require.NoError(t, err)
	match, err := table.Match(http.MethodPost, "/assign/e")
	require.NoError(t, err)
	r := &crowdRoom{positions: &positions{opened: opens, given: map[int]int{}}, visitor: tokens, match: match}
	ids := &VisitorIDs{Tokens: tokens, Cookies: cookies, Limits: limit.New(limit.Config{Keys: 10}, nil, time.Now)}
	r.rooms = NewRoomHandlers(state, tokens, cookies, ids, &proof.Proofs{}, r.positions)
	return r
}

// browser keeps the cookie of one visitor.
type browser struct{ cookie string }

// assign asks for a position as the dispatcher does: first whether the visitor is too early.
func (r *crowdRoom) assign(ctx context.Context, b *browser) error {
	h := http.Header{}
	if b.cookie != "" {
		h.Set("Cookie", b.cookie)
	}
	q := &edge.Request{Match: r.match, Header: h}
	if visitor, ok := r.visitor.Visitor(h); ok {
		q.Visitor, q.VisitorID = visitor, visitor.String()
	}
	rec := httptest.NewRecorder()
	err := r.rooms.RefuseEarly(rec, q)
	if err == nil {
		err = r.rooms.AssignPosition(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), q)
	}
	for _, c := range rec.Result().Cookies() {
		b.cookie = c.Name + "=" + c.Value
	}
	return err
}

// visit asks until there is a position, and returns when it was given. An impatient visitor asks every
// second, others when they are told to.
func (r *crowdRoom) visit(ctx context.Context, impatient bool) (time.Time, error) {
	b := &browser{}
	for {
		err := r.assign(ctx, b)
		if err == nil {
			return time.Now(), nil
		}
		var e *errs.Error
		if !errors.As(err, &e) || !errors.Is(err, errs.ErrLobbyOpen) && !errors.Is(err, errs.ErrAskLater) {
			return time.Time{}, err
		}
		asksAt, err := strconv.ParseInt(e.Metadata["asksAt"], 10, 64)
		if err != nil {
			return time.Time{}, err
		}
		if impatient {
			time.Sleep(time.Second)
		} else {
			time.Sleep(time.Until(time.UnixMilli(asksAt)))
		}
	}
}

// Half of 10,000 visitors wait before the door, the others come within seconds after it opens: the
// positions of no second exceed the planned rate much, and every tenth visitor asks all the time and
// gains nothing.
func TestCrowdAtTheDoorIsSpread(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t)
	synctest.Test(t, func(t *testing.T) {
		const visitors, rate = 10_000, 1000
		r := newCrowdRoom(t, tokens, time.Now().Add(20*time.Second))
		var mu sync.Mutex
		wait := map[bool]time.Duration{}
		var crowd sync.WaitGroup
		for n := range visitors {
			crowd.Go(func() {
				if n%2 == 1 { // after the start, at the planned rate
					time.Sleep(time.Until(r.opened) + time.Duration(n/2)*time.Second/rate)
				}
				impatient := n%20 < 2
				got, err := r.visit(t.Context(), impatient)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				wait[impatient] += got.Sub(r.opened)
			})
		}
		crowd.Wait()
		busiest, sum := 0, 0
		for s := range 3 * spreadSeconds {
			t.Logf("%3d s %5d", s, r.given[s])
			busiest, sum = max(busiest, r.given[s]), sum+r.given[s]
		}
		require.Equal(t, visitors, sum)
		require.LessOrEqual(t, float64(busiest), 1.5*rate)
		require.Greater(t, wait[true]/(visitors/10), wait[false]/(visitors*9/10)-spreadSeconds*time.Second/50)
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}

// A visitor whose turn has not come gets an id, keeps the turn, and costs no call of vwr and no count as
// a new visitor. Who has waited before the door is before all who have not.
func TestEarlyVisitors(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t)
	synctest.Test(t, func(t *testing.T) {
		r := newCrowdRoom(t, tokens, time.Now().Add(20*time.Second))
		waited := &browser{}
		require.ErrorIs(t, r.assign(t.Context(), waited), errs.ErrLobbyOpen)
		require.NotEmpty(t, waited.cookie)
		time.Sleep(time.Until(r.opened))
		late := &browser{}
		first := r.assign(t.Context(), late)
		require.ErrorIs(t, first, errs.ErrAskLater)
		id, ok := r.visitor.Visitor(http.Header{"Cookie": {late.cookie}})
		require.True(t, ok)
		require.Zero(t, id.Counted.Unix())
		time.Sleep(time.Second)
		again := r.assign(t.Context(), late)
		require.Equal(t, errs.From(first).Metadata, errs.From(again).Metadata)
		require.Less(t, errs.From(again).RetryAfter, errs.From(first).RetryAfter)
		require.Empty(t, r.given)
		time.Sleep((spreadSeconds - 1) * time.Second)
		require.NoError(t, r.assign(t.Context(), waited))
		require.ErrorIs(t, r.assign(t.Context(), &browser{}), errs.ErrAskLater, "another id waits longer")
		time.Sleep(time.Second)
		require.NoError(t, r.assign(t.Context(), late))
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}
