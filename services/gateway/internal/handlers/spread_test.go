package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/spread"
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
	return newLimitedRoom(t, tokens, opens, limit.Config{Keys: 10})
}

func newLimitedRoom(t *testing.T, tokens *identity.Verifier, opens time.Time, limits limit.Config) *crowdRoom {
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
	ids := &VisitorIDs{Tokens: tokens, Cookies: cookies, Limits: limit.New(limits, nil, time.Now)}
	r.rooms = NewRoomHandlers(state, tokens, cookies, ids, &proof.Proofs{}, r.positions)
	return r
}

// browser keeps the cookie of one visitor.
type browser struct{ cookie string }

// browserWith returns a browser with an id.
func (r *crowdRoom) browserWith(id claims.Anon) *browser {
	return &browser{identity.AnonCookie + "=" + r.visitor.SealVisitor(id)}
}

// id returns the browser's id.
func (r *crowdRoom) id(t *testing.T, b *browser) claims.Anon {
	t.Helper()
	id, ok := r.visitor.Visitor(http.Header{"Cookie": {b.cookie}})
	require.True(t, ok)
	return id
}

// assign asks for a position.
func (r *crowdRoom) assign(ctx context.Context, b *browser) error {
	return r.call(ctx, b, r.rooms.AssignPosition)
}

// call calls a handler as the dispatcher does: first it asks whether the visitor is too early.
func (r *crowdRoom) call(ctx context.Context, b *browser, handler edge.Handler) error {
	h := http.Header{}
	if b.cookie != "" {
		h.Set("Cookie", b.cookie)
	}
	q := &edge.Request{Match: r.match, Header: h, Address: netip.MustParseAddr("192.0.2.1")}
	if visitor, ok := r.visitor.Visitor(h); ok {
		q.Visitor, q.VisitorID = visitor, visitor.String()
	}
	rec := httptest.NewRecorder()
	err := r.rooms.RefuseEarly(rec, q)
	if err == nil {
		err = handler(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), q)
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
		require.Zero(t, r.id(t, late).Counted.Unix())
		time.Sleep(time.Second)
		again := r.assign(t.Context(), late)
		require.Equal(t, errs.From(first).Metadata, errs.From(again).Metadata)
		require.Less(t, errs.From(again).RetryAfter, errs.From(first).RetryAfter)
		require.Empty(t, r.given)
		time.Sleep((spreadSeconds - 1) * time.Second)
		require.NoError(t, r.assign(t.Context(), waited))
		require.ErrorIs(t, r.assign(t.Context(), &browser{}), errs.ErrAskLater, "another id waits longer")
		sleepUntilTurn(t, first)
		require.NoError(t, r.assign(t.Context(), late))
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}

// turnIn returns the time to ask that a refusal names.
func turnIn(t *testing.T, refusal error) time.Time {
	t.Helper()
	require.Error(t, refusal)
	ms, err := strconv.ParseInt(errs.From(refusal).Metadata["asksAt"], 10, 64)
	require.NoError(t, err)
	return time.UnixMilli(ms)
}

func sleepUntilTurn(t *testing.T, refusal error) {
	t.Helper()
	time.Sleep(time.Until(turnIn(t, refusal)))
}

// An id of more than a day gets no position by its early turn, however often it is shown: each time
// it is replaced by another one, which is late. With that the visitor gets a challenge and one
// position.
func TestExpiredIDIsLate(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t)
	proofs, err := proof.New(tokens, proof.HumanTest{}, nil, 0, time.Now)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		r := newCrowdRoom(t, tokens, time.Now().Add(20*time.Second))
		r.rooms.proofs = proofs
		old := claims.NewAnon(time.Now().Add(-25 * time.Hour))
		time.Sleep(time.Until(r.opened) + spreadSeconds*time.Second)
		for range 20 {
			turn := turnIn(t, r.assign(t.Context(), r.browserWith(old)))
			require.False(t, turn.Before(r.opened.Add(spreadSeconds*time.Second)))
		}
		require.Empty(t, r.given)
		b := r.browserWith(old)
		refusal := r.call(t.Context(), b, r.rooms.Challenge)
		require.ErrorIs(t, refusal, errs.ErrAskLater)
		require.Equal(t, old.ID, r.id(t, b).Former)
		sleepUntilTurn(t, refusal)
		require.NoError(t, r.call(t.Context(), b, r.rooms.Challenge))
		require.NoError(t, r.assign(t.Context(), b), "the challenge is no new beginning")
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}

// Ids that nobody has counted cost nothing. Though made before the start, they are late.
func TestUncountedIDsAreLate(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t)
	synctest.Test(t, func(t *testing.T) {
		r := newCrowdRoom(t, tokens, time.Now().Add(20*time.Second))
		made := make([]claims.Anon, 100)
		for i := range made {
			made[i] = claims.NewAnon(time.Now())
			made[i].Counted = time.Unix(0, 0)
		}
		time.Sleep(time.Until(r.opened))
		for _, id := range made {
			turn := turnIn(t, r.assign(t.Context(), r.browserWith(id)))
			require.False(t, turn.Before(r.opened.Add(spreadSeconds*time.Second)))
		}
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}

// Beyond its network's limit of new visitors, a visitor still learns of the lobby, and gets an id
// that is late. Once the network may have another visitor, a counted id replaces it.
func TestLobbyBehindACrowdedNetwork(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t)
	synctest.Test(t, func(t *testing.T) {
		r := newLimitedRoom(t, tokens, time.Now().Add(time.Minute), limit.Config{Keys: 10, NewVisitors: limit.RateRule{Rate: 0.1, Burst: 1}})
		early, late := r.opened, r.opened.Add(spreadSeconds*time.Second)
		first, second := &browser{}, &browser{}
		refusal := r.assign(t.Context(), first)
		require.ErrorIs(t, refusal, errs.ErrLobbyOpen)
		require.WithinRange(t, turnIn(t, refusal), early, late)
		kept := r.id(t, first)
		refusal = r.assign(t.Context(), second)
		require.ErrorIs(t, refusal, errs.ErrLobbyOpen)
		require.False(t, turnIn(t, refusal).Before(late))
		uncounted := r.id(t, second)
		require.Equal(t, turnIn(t, refusal), turnIn(t, r.assign(t.Context(), second)), "limited again")
		time.Sleep(10 * time.Second)
		refusal = r.assign(t.Context(), second)
		require.WithinRange(t, turnIn(t, refusal), early, late)
		require.NotEqual(t, uncounted.ID, r.id(t, second).ID)
		require.Equal(t, uuid.Nil, r.id(t, second).Former)
		require.ErrorIs(t, r.assign(t.Context(), first), errs.ErrLobbyOpen)
		require.Equal(t, kept, r.id(t, first))
		require.NoError(t, r.rooms.Close(t.Context()))
	})
}

// The gateway through which an operator activates a room spreads its crowd at once, as the others do
// when they hear of it.
func TestActivationSpreadsAtOnce(t *testing.T) {
	t.Parallel()
	const activated, starts = 1_800_000_000_000_000, 1_800_000_600_000 // µs, ms
	for _, c := range []struct {
		lobby  *vwrv1.Lobby
		opened int64
	}{{nil, activated / 1000}, {&vwrv1.Lobby{StartsAt: starts}, starts}} {
		rooms := roomstate.New()
		(&Completer{Rooms: rooms}).Complete(t.Context(), "", &vwrv1.VwrStatus{
			EventId: "e", IsActive: true, ActivatedAt: activated, Lobby: c.lobby, SpreadMs: new(int64(60_000)),
		})
		require.Equal(t, spread.Instant{Start: time.UnixMilli(c.opened), Over: time.Minute, Round: activated}, rooms.Get("e").Opening)
	}
}
