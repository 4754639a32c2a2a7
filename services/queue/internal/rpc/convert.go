package rpc

import (
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
)

// request converts an item; it fails without a user.
func request(it *queuev1.LineItem) (line.Request, error) {
	if !ids.ValidUser(it.GetCaller().GetUserId()) {
		return line.Request{}, errs.ErrUnauthenticated
	}
	return line.Request{EventID: it.GetEventId(), Caller: caller(it.GetCaller()), Ticket: it.GetTicket(), Entry: entry(it.GetEntry())}, nil
}

func caller(c *commonv1.Caller) line.Caller {
	t := c.GetTier1()
	return line.Caller{UserID: c.GetUserId(), Tier1: line.Tier1{Required: t.GetRequired(), Round: t.GetRound(), Position: t.GetPosition()}}
}

func entry(e *queuev1.EntryClaims) *line.Entry {
	if e.GetSlotId() == "" {
		return nil
	}
	return &line.Entry{SlotID: e.GetSlotId(), Epoch: e.GetEpoch(), End: e.GetEnd(), ExpiresAt: e.GetExpiresAt()}
}

func result(a line.Answer) *queuev1.LineResult {
	if a.Err != nil {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Problem{Problem: errs.ToProblem(a.Err)}}
	}
	return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: place(a.Place)}}
}

func place(p line.Place) *queuev1.Place {
	out := &queuev1.Place{
		Status: p.Status, Queued: p.Status == line.StatusQueued, Position: p.Position, PeopleAhead: p.Ahead, PeopleBehind: p.Behind,
		EstimatedWait: p.EstimatedWait, NextPoll: p.NextPoll, CurrentUsers: p.Active, Threshold: p.Threshold, QueueSize: p.QueueSize,
		EventTitle: optional(p.Title), ArtistName: optional(p.Artist), EntryToken: optional(p.EntryToken), Ticket: optional(p.Ticket),
		SaleStatus: optional(p.Sale.String()),
	}
	if p.ExpiresAt > 0 {
		out.ExpiresAt = proto.Int64(p.ExpiresAt)
	}
	return out
}

// optional returns nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func slot(it *queuev1.SlotItem) (line.Slot, error) {
	return line.Slot{EventID: it.GetEventId(), UserID: it.GetUserId(), SlotID: it.GetSlotId(), Epoch: it.GetEpoch()}, nil
}

func verdict(v line.Verdict, err error) *queuev1.SlotResult {
	if err == nil {
		err = v.Err
	}
	return &queuev1.SlotResult{Active: v.Active, Problem: errs.ToProblem(err)}
}

func overview(o line.Overview) *queuev1.LineStatus {
	return &queuev1.LineStatus{
		EventId: o.EventID, Waiting: o.Waiting, Parked: o.Parked, Active: o.Active, Threshold: o.Threshold,
		AdmittedPerMinute: o.AdmittedPerMinute, Epoch: o.Epoch, Paused: o.Paused,
	}
}

func lines(recoveries []line.Recovery) []*queuev1.Line {
	out := make([]*queuev1.Line, len(recoveries))
	for i, r := range recoveries {
		out[i] = &queuev1.Line{
			EventId: r.EventID, Epoch: r.Epoch, PauseUntil: r.PauseUntil, PrevEpoch: r.Prev, SaleStatus: r.Sale.String(),
		}
	}
	return out
}
