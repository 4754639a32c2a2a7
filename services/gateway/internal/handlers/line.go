package handlers

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/rpc/batchrpc"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

type (
	lineGroup = lineBatches[*queuev1.LineItem, *queuev1.Place]
	lineCall  = batchrpc.Method[*queuev1.LineRequest, *queuev1.LineResponse]
)

// LineHandlers serves tier 2, the waiting line of an event: check, status, heartbeat and leave.
type LineHandlers struct {
	rooms                    edge.Rooms
	lines                    edge.Lines
	tokens                   *identity.Verifier
	cookies                  identity.Cookies
	queue                    queuev1.QueueServiceClient
	check, status, heartbeat *lineGroup
}

// KnownLines knows which lines there are, and their epochs.
type KnownLines interface {
	KnownEvents
	edge.Lines
}

// NewLineHandlers makes the handlers of tier 2.
func NewLineHandlers(rooms edge.Rooms, known KnownLines, tokens *identity.Verifier, cookies identity.Cookies, queue queuev1.QueueServiceClient) *LineHandlers {
	return &LineHandlers{
		rooms: rooms, lines: known, tokens: tokens, cookies: cookies, queue: queue,
		check:     newLineBatches(known, batchConfig(callTimeout), newLineBatchCall(queue.Check)),
		status:    newLineBatches(known, pollBatchConfig(), newLineBatchCall(queue.Status)),
		heartbeat: newLineBatches(known, pollBatchConfig(), newLineBatchCall(queue.Heartbeat)),
	}
}

func newLineBatchCall(method lineCall) batchCall[*queuev1.LineItem, *queuev1.Place] {
	return batchrpc.Call(method, func(items []*queuev1.LineItem) *queuev1.LineRequest {
		return &queuev1.LineRequest{Items: items}
	}, (*queuev1.LineResult).GetPlace)
}

// Check puts the user into the line. That the event has no room to pass before must be certain,
// except for users with a token of a slot in the line's epoch.
func (h *LineHandlers) Check(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	event := q.Param("event_id")
	if tokens := h.tokens.EntryTokens(q.Header, event, q.User()); edge.CurrentEntry(h.lines, tokens[0]) == nil && edge.CurrentEntry(h.lines, tokens[1]) == nil {
		if err := h.rooms.Settle(r.Context(), event); err != nil {
			return err
		}
	}
	p, err := h.requestPlace(w, r, q, h.check)
	if err != nil {
		return err
	}
	return WriteMessage(w, http.StatusOK, p)
}

func (h *LineHandlers) Status(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	p, err := h.requestPlace(w, r, q, h.status)
	if err != nil {
		return err
	}
	return writePlace(w, p)
}

// Heartbeat reports to the queue service that a user with a slot is present. It responds with only
// a few fields of the place.
func (h *LineHandlers) Heartbeat(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	p, err := h.requestPlace(w, r, q, h.heartbeat)
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 512), `{"status":`...)
	b = strconv.AppendQuote(b, p.GetStatus())
	if p.EntryToken != nil {
		b = append(append(b, `,"entryToken":`...), strconv.Quote(p.GetEntryToken())...)
	}
	if p.ExpiresAt != nil {
		b = strconv.AppendInt(append(b, `,"expiresAt":`...), p.GetExpiresAt(), 10)
	}
	if p.SaleStatus != nil {
		b = strconv.AppendQuote(append(b, `,"saleStatus":`...), p.GetSaleStatus())
	}
	writeJSON(w, http.StatusOK, edge.NoStore, append(b, '}'))
	return nil
}

// requestPlace asks the queue service for the user's place, and sets the cookie of the entry token.
func (h *LineHandlers) requestPlace(w http.ResponseWriter, r *http.Request, q *edge.Request, calls *lineGroup) (*queuev1.Place, error) {
	event := q.Param("event_id")
	// One allocation for item and caller. The caller has only what the queue service reads.
	call := &struct {
		item   queuev1.LineItem
		caller commonv1.Caller
	}{}
	round, active := h.rooms.LatestRound(event)
	call.caller.UserId, call.caller.Tier1 = q.User(), q.Tier1(h.tokens, event, round, active)
	if q.Session != nil && calls != h.heartbeat { // presales may admit users by e-mail address or claims
		call.caller.Email, call.caller.Claims = q.Session.Email, q.Session.Claims
	}
	call.item.Caller, call.item.EventId, call.item.Ticket = &call.caller, event, identity.QueueTicket(q.Header)
	call.item.Entry = entryClaims(h.tokens.EntryToken(q.Header, event, q.User()))
	p, err := calls.Do(r.Context(), event, &call.item)
	if err != nil {
		return nil, withRedirect(err, event)
	}
	if tok := p.GetEntryToken(); tok != "" {
		end := h.tokens.EntryTokenEnd(tok)
		if end.IsZero() {
			end = time.UnixMilli(p.GetExpiresAt())
		}
		h.cookies.Set(w, identity.EntryCookie, tok, end)
	}
	return p, nil
}

func entryClaims(e *claims.Entry) *queuev1.EntryClaims {
	if e == nil {
		return nil
	}
	return &queuev1.EntryClaims{SlotId: e.SlotID, Epoch: e.Epoch, End: e.End, ExpiresAt: e.Expiry().UnixMilli()}
}

// Leave ends the slots of the entry tokens in the request, even of expired ones, since a device
// that was suspended may still have a slot. Only if no token is valid, the user also loses the
// place in the line: a tab inside the shop must not cost another tab its place.
func (h *LineHandlers) Leave(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	event := q.Param("event_id")
	ctx := caller.With(r.Context(), q.Caller())
	leave := func(e *claims.Entry) error {
		_, err := h.queue.Leave(ctx, &queuev1.LeaveRequest{EventId: event, Entry: entryClaims(e)})
		return err
	}
	inside, ended := false, ""
	for _, e := range h.tokens.EntryTokensWithExpired(q.Header, event, q.User()) {
		if e == nil {
			continue
		}
		inside = inside || h.cookies.Now().Before(e.Expiry())
		if e.SlotID == ended {
			continue
		}
		if err := leave(e); err != nil {
			return withRedirect(err, event)
		}
		ended = e.SlotID
	}
	if !inside {
		if err := leave(nil); err != nil {
			return withRedirect(err, event)
		}
	}
	if ended != "" {
		h.cookies.Clear(w, identity.EntryCookie)
	}
	w.Header()["Cache-Control"] = edge.NoStore
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *LineHandlers) Close(ctx context.Context) error {
	return closeAll(ctx, h.check, h.status, h.heartbeat)
}
