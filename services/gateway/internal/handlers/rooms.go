package handlers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"
	"urr.guru/pkg/spread"
	"urr.guru/pkg/waits"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/proof"
	"urr.guru/services/gateway/internal/roomstate"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// RoomHandlers serves tier 1, the waiting room of an event: positions, polls and lobbies.
type RoomHandlers struct {
	state   *roomstate.Rooms
	tokens  *identity.Verifier
	cookies identity.Cookies
	proofs  *proof.Proofs
	ids     *VisitorIDs
	assign  *batch.Groups[string, *vwrv1.AssignItem, *vwrv1.Assigned] // by event; nil without tier 1
	check   *lineBatches[*vwrv1.CheckItem, *vwrv1.Checked]            // by event
	join    *batch.Groups[string, *vwrv1.JoinItem, *vwrv1.Joined]     // by event
}

// NewRoomHandlers makes the handlers of tier 1. If vwr is nil, no room is ever active.
func NewRoomHandlers(
	state *roomstate.Rooms, tokens *identity.Verifier, cookies identity.Cookies, ids *VisitorIDs, proofs *proof.Proofs, vwr vwrv1.VwrServiceClient,
) *RoomHandlers {
	h := &RoomHandlers{state: state, tokens: tokens, cookies: cookies, ids: ids, proofs: proofs}
	if vwr == nil {
		return h
	}
	h.assign = newEventBatches(crowdBatchConfig(assignTimeout), batchrpc.Call(vwr.Assign, func(items []*vwrv1.AssignItem) *vwrv1.AssignRequest {
		return &vwrv1.AssignRequest{Items: items}
	}, (*vwrv1.AssignResult).GetAssigned))
	h.check = newLineBatches(state, batchConfig(callTimeout), batchrpc.Call(vwr.Check, func(items []*vwrv1.CheckItem) *vwrv1.CheckRequest {
		return &vwrv1.CheckRequest{Items: items}
	}, (*vwrv1.CheckResult).GetChecked))
	h.join = newEventBatches(crowdBatchConfig(assignTimeout), batchrpc.Call(vwr.Join, func(items []*vwrv1.JoinItem) *vwrv1.JoinRequest {
		return &vwrv1.JoinRequest{Items: items}
	}, (*vwrv1.JoinResult).GetJoined))
	return h
}

// AssignPosition gives the visitor a position, after a proof of work if the event or the visitor's
// network requires one. For an event without a room, and before a room's start with a lobby, it
// responds from memory, unless the stream of room states is broken.
func (h *RoomHandlers) AssignPosition(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	event := q.Param("event_id")
	s, err := h.assignableRoom(w, r, q)
	if err != nil {
		return err
	}
	if q.VisitorID == "" && identity.Proof(q.Header) != "" {
		return errs.ErrVisitorRequired // the browser does not keep the cookie of the challenge, so no proof will do
	}
	// A ticket with a position proves that the visitor has done the work. (A lobby's ticket has none.)
	if t, _, ok := h.tokens.Tier1Ticket(q.Header, event, q.VisitorID, q.User()); !ok || t.Round != s.Round || t.Position == 0 {
		if err := h.ids.CountForPosition(r.Context(), w, q); err != nil {
			return err
		}
		d := workDebtOf(event, s, q)
		if err := h.proofs.Check(r.Context(), d, identity.Proof(q.Header)); err != nil {
			return err
		}
		if err := h.proofs.CheckTest(r.Context(), d, identity.Captcha(q.Header), q.Address); err != nil {
			return err
		}
	}
	a, err := h.assign.Do(r.Context(), event, &vwrv1.AssignItem{Caller: q.Caller(), EventId: event})
	if err != nil {
		return err
	}
	if h.halted(s) {
		a.EstimatedWait = nil
	}
	return WriteMessage(w, http.StatusOK, a)
}

// assignableRoom returns the state of the event's room, or an error if the caller can get no
// position now. While the stream of room states is broken, the last state is used and the vwr
// service decides. Whoever waits for the start gets an id, which shows later that it was made before.
func (h *RoomHandlers) assignableRoom(w http.ResponseWriter, r *http.Request, q *edge.Request) (*roomstate.State, error) {
	if h.assign == nil {
		return nil, errs.ErrVWRInactive
	}
	s, now := h.state.Get(q.Param("event_id")), h.cookies.Now()
	switch {
	case !h.state.Connected():
		return s, nil
	case !s.Active:
		return nil, errs.ErrVWRInactive
	case !s.Lobby.AssignsPositions(now.UnixMilli()):
		if err := h.ids.Issue(r.Context(), w, q); err != nil {
			return nil, err
		}
		return nil, lobbyOpenError(s, turnOf(s, q), now)
	case s.SignIn && q.Session == nil:
		return nil, q.SessionErr
	}
	return s, nil
}

// halted reports whether waits are not estimated: nobody is served, or that is not known here.
func (h *RoomHandlers) halted(s *roomstate.State) bool { return s.Halted() || h.state.Silent() }

// turnOf returns when the caller may ask for a position. An id that was never counted counts as
// made after the start: it costs nothing, so anybody could have many, of which some have early
// turns.
func turnOf(s *roomstate.State, q *edge.Request) time.Time {
	if s.SignIn && q.Session != nil {
		return s.Opening.TurnOf(claims.UserPrefix+q.User(), time.Time{}) // nobody makes users
	}
	made := q.Visitor.Issued
	if !wasCounted(q.Visitor) && made.Before(s.Opening.Start) {
		made = s.Opening.Start
	}
	return s.Opening.TurnOf(q.Visitor.String(), made)
}

// RefuseEarly refuses, from memory, a visitor whose turn to ask for a position has not come, for
// requests before which a large crowd waited. Where turns belong to ids, it first gives one to a
// visitor without one, or whose id has expired: an id must not get a position by another one's
// turn.
func (h *RoomHandlers) RefuseEarly(w http.ResponseWriter, q *edge.Request) error {
	event, now := q.Param("event_id"), h.cookies.Now()
	s := h.state.Get(event)
	if h.assign == nil || !s.Active || s.Opening.Over == 0 || now.Before(s.Opening.Start) || s.SignIn && q.Session == nil {
		return nil
	}
	if t, _, ok := h.tokens.Tier1Ticket(q.Header, event, q.VisitorID, q.User()); ok && t.Round == s.Round && t.Position > 0 {
		return nil
	}
	if !s.Opening.TurnOf("", now).After(now) {
		return nil // not even who comes only now waits any more
	}
	if !s.SignIn {
		h.ids.IssueUncounted(w, q)
	}
	turn := turnOf(s, q)
	if !turn.After(now) {
		return nil
	}
	return askLaterError(s.Opening, turn, now)
}

// askLaterError is the answer to who asks before the own turn after an opening.
func askLaterError(opening spread.Instant, turn, now time.Time) error {
	return errs.ErrAskLater.With("asksAt", strconv.FormatInt(turn.UnixMilli(), 10)).
		With("opensAt", strconv.FormatInt(opening.Start.UnixMilli(), 10)).WithRetry(turn.Sub(now))
}

// workDebtOf returns the proof of work that the caller owes for a position in a room.
func workDebtOf(event string, s *roomstate.State, q *edge.Request) proof.WorkDebt {
	return proof.WorkDebt{Event: event, Round: s.Round, Visitor: q.VisitorID, Bits: max(s.ProofOfWork, q.Owes)}
}

func (h *RoomHandlers) Challenge(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	event := q.Param("event_id")
	s, err := h.assignableRoom(w, r, q)
	if err != nil {
		return err
	}
	if err := h.ids.CountForPosition(r.Context(), w, q); err != nil {
		return err
	}
	d := workDebtOf(event, s, q)
	challenge, expires := h.proofs.Challenge(d)
	return WriteMessage(w, http.StatusOK, &gatewayv1.Challenge{Challenge: challenge, Difficulty: int64(d.Bits), ExpiresAt: expires.UnixMilli()})
}

// CheckPosition responds whether the visitor's position is served. It responds from memory to
// visitors with a ticket who wait or are in a lobby, and to visitors without one if the event is
// unknown here. For all others it calls the vwr service. The response also has the sale status, and
// for admitted visitors the page to go to.
func (h *RoomHandlers) CheckPosition(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	if h.check == nil {
		return errs.ErrVWRInactive
	}
	event, request := q.Param("event_id"), q.Param("request_id")
	t, ticket, ok := h.tokens.Tier1Ticket(q.Header, event, q.VisitorID, q.User())
	if id, err := uuid.Parse(request); err != nil || id != t.RequestID {
		ok = false
	}
	s := h.state.Get(event)
	if ok {
		switch {
		case t.Round < s.Round:
			return errs.ErrVWRRequestUnknown // a position of an ended round is void
		case t.Round == s.Round && s.Active && t.Position == 0 && h.waitsForTurn(s, t.RequestID):
			writeJSON(w, http.StatusOK, edge.NoStore, appendLobbyPoll(make([]byte, 0, 224), s, t.RequestID, h.cookies.Now()))
			return nil
		case t.Round == s.Round && s.Active && t.Position > s.Serving:
			writeJSON(w, http.StatusOK, edge.NoStore, appendWaiting(make([]byte, 0, 192), s, t.Position, h.halted(s)))
			return nil
		}
	} else {
		if h.state.Connected() && !h.state.Known(event) {
			return errs.ErrVWRRequestUnknown
		}
		ticket = ""
	}
	c, err := h.check.Do(r.Context(), event, &vwrv1.CheckItem{Caller: q.Caller(), EventId: event, RequestId: request, Ticket: ticket})
	if err != nil {
		return err
	}
	if s.Sale != "" {
		c.SaleStatus = &s.Sale
	}
	switch {
	case !c.GetAdmitted() && h.halted(s):
		c.EstimatedWait = nil
	case c.GetAdmitted() && s.Next != "":
		c.Next = &s.Next
	}
	if tok := c.GetToken(); tok != "" {
		h.cookies.Set(w, identity.Tier1Cookie, tok, time.Unix(c.GetExpiresAt(), 0))
	}
	return WriteMessage(w, http.StatusOK, c)
}

// waitsForTurn reports whether an entry of the lobby has no position yet, or whether it is not yet its
// turn to ask for it. The counter does not move before all have asked.
func (h *RoomHandlers) waitsForTurn(s *roomstate.State, entry uuid.UUID) bool {
	return s.Lobby.Pending() || s.Opening.TurnOf(entry.String(), time.Time{}).After(h.cookies.Now())
}

// appendWaiting appends the JSON that a check responds with while the visitor's position is not
// served. The vwr service would respond with the same; a test compares the two.
func appendWaiting(b []byte, s *roomstate.State, position int64, halted bool) []byte {
	ahead := position - s.Serving
	b = append(b, `{"admitted":false,"position":`...)
	b = strconv.AppendInt(b, position, 10)
	b = append(b, `,"servingCounter":`...)
	b = strconv.AppendInt(b, s.Serving, 10)
	b = append(b, `,"ahead":`...)
	b = strconv.AppendInt(b, ahead, 10)
	wait := waits.EstimatedWait(ahead, s.Rate, s.Configured)
	if halted {
		wait = 0
	}
	if wait > 0 {
		b = append(b, `,"estimatedWait":`...)
		b = strconv.AppendInt(b, wait, 10)
	}
	b = append(b, `,"nextPoll":`...)
	b = strconv.AppendInt(b, waits.NextPoll(ahead, wait, rand.Float64()), 10)
	return append(append(b, s.SaleJSON...), '}')
}

// ServingCounter responds with the serving counter, which the waiting-room page polls. The response
// is the same for everybody, so that a CDN can serve it.
func (h *RoomHandlers) ServingCounter(w http.ResponseWriter, _ *http.Request, q *edge.Request) error {
	s := h.state.Get(q.Param("event_id"))
	writeTagged(w, q.Header, s.ETag, sharedCacheControl, s.ServingJSON)
	return nil
}

func (h *RoomHandlers) Status(w http.ResponseWriter, _ *http.Request, q *edge.Request) error {
	event := q.Param("event_id") // its form needs no escaping
	s := h.state.Get(event)
	b := append(make([]byte, 0, 192), `{"eventId":"`...)
	b = append(b, event...)
	b = append(b, `","isActive":`...)
	b = strconv.AppendBool(b, s.Active)
	b = append(b, `,"totalInQueue":`...)
	b = strconv.AppendInt(b, s.Issued, 10)
	b = append(b, `,"serving":`...)
	b = strconv.AppendInt(b, s.Serving, 10)
	b = append(b, `,"waitingCount":`...)
	b = strconv.AppendInt(b, s.Waiting(), 10)
	b = append(b, s.SaleJSON...)
	if s.Next != "" {
		b = append(append(append(b, `,"next":"`...), s.Next...), '"')
	}
	writeJSON(w, http.StatusOK, sharedCacheControl, append(b, '}'))
	return nil
}

func (h *RoomHandlers) Close(ctx context.Context) error {
	if h.assign == nil {
		return nil
	}
	return closeAll(ctx, h.assign, h.check, h.join)
}
