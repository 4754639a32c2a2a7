package rpc

import (
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
)

// toRequest converts an item of a call. It fails with ErrUnauthenticated if the item has no user.
func toRequest(it *queuev1.LineItem) (line.PlaceRequest, error) {
	if !ids.ValidUser(it.GetCaller().GetUserId()) {
		return line.PlaceRequest{}, errs.ErrUnauthenticated
	}
	return line.PlaceRequest{EventID: it.GetEventId(), Visitor: toVisitor(it.GetCaller()), Ticket: it.GetTicket(), Entry: toEntry(it.GetEntry())}, nil
}

func toVisitor(c *commonv1.Caller) line.Visitor {
	t := c.GetTier1()
	return line.Visitor{UserID: c.GetUserId(), Email: c.GetEmail(), Claims: c.GetClaims(), Tier1: line.Tier1{
		Required: t.GetRequired(), Round: t.GetRound(), Position: t.GetPosition(),
	}}
}

func toEntry(e *queuev1.EntryClaims) *line.EntryClaims {
	if e.GetSlotId() == "" {
		return nil
	}
	return &line.EntryClaims{SlotID: e.GetSlotId(), Epoch: e.GetEpoch(), End: e.GetEnd(), ExpiresAt: e.GetExpiresAt()}
}

func fromAnswer(a line.PlaceAnswer) *queuev1.LineResult {
	if a.Err != nil {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Problem{Problem: errs.ToProblem(a.Err)}}
	}
	return fromPlace(a.Place)
}

// placeResult is a result and everything that it points to, in one struct, so that an item of a
// poll costs one allocation.
type placeResult struct {
	result queuev1.LineResult
	choice queuev1.LineResult_Place
	place  queuev1.Place

	title, artist, entryToken, ticket, sale string
	expiresAt, estimatedWait, generalAt     int64
	paused, entitled                        bool
}

func fromPlace(p line.Place) *queuev1.LineResult {
	r := &placeResult{
		title: p.Title, artist: p.Artist, entryToken: p.EntryToken, ticket: p.Ticket, sale: p.Sale.String(), expiresAt: p.ExpiresAt,
		estimatedWait: p.EstimatedWait, paused: p.Paused, entitled: p.Entitled, generalAt: p.GeneralOpensAt,
	}
	out := &r.place
	out.Status, out.Queued = p.Status, p.Status == line.StatusQueued
	out.Position, out.PeopleAhead, out.PeopleBehind = p.Position, p.Ahead, p.Behind
	out.NextPoll = p.NextPoll
	if !out.Queued || p.EstimatedWait > 0 {
		out.EstimatedWait = &r.estimatedWait
	}
	out.CurrentUsers, out.Threshold, out.QueueSize = p.Active, p.Threshold, p.QueueSize
	out.EventTitle, out.ArtistName, out.SaleStatus = nilIfEmpty(&r.title), nilIfEmpty(&r.artist), nilIfEmpty(&r.sale)
	out.EntryToken, out.Ticket = nilIfEmpty(&r.entryToken), nilIfEmpty(&r.ticket)
	if p.ExpiresAt > 0 {
		out.ExpiresAt = &r.expiresAt
	}
	if p.Paused {
		out.Paused = &r.paused
	}
	if p.GeneralOpensAt > 0 {
		out.GeneralOpensAt = &r.generalAt
		if out.Queued {
			out.Entitled = &r.entitled
		}
	}
	r.choice.Place, r.result.Result = out, &r.choice
	return &r.result
}

// nilIfEmpty returns nil for an empty string.
func nilIfEmpty(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}

func toSlotQuery(it *queuev1.SlotItem) (line.SlotQuery, error) {
	return line.SlotQuery{EventID: it.GetEventId(), UserID: it.GetUserId(), SlotID: it.GetSlotId(), Epoch: it.GetEpoch()}, nil
}

func fromSlotVerdict(v line.SlotVerdict, err error) *queuev1.SlotResult {
	if err == nil {
		err = v.Err
	}
	return &queuev1.SlotResult{Active: v.Active, Problem: errs.ToProblem(err)}
}

func fromLineUpdates(updates []line.LineUpdate) []*queuev1.Line {
	out := make([]*queuev1.Line, len(updates))
	for i, r := range updates {
		out[i] = &queuev1.Line{
			EventId: r.EventID, Epoch: r.Epoch, PauseUntil: r.PauseUntil, PrevEpoch: r.Prev, SaleStatus: r.Sale.String(), Paused: r.Paused,
		}
	}
	return out
}
