package rpc

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

func toPresale(in *ticketv1.Presale) *event.Presale {
	if in == nil {
		return nil
	}
	p := &event.Presale{MaxPerUser: in.GetMaxPerUser()}
	if in.GetOpensAt() != nil {
		p.OpensAt = in.GetOpensAt().AsTime()
	}
	for _, w := range in.GetAny() {
		way := event.Way{PlanID: w.GetPlanId(), CodeList: w.GetCodeList(), List: w.GetList(), Claim: w.GetClaim(), Values: w.GetValues()}
		if w.GetBoughtBefore() != nil {
			way.BoughtBefore = new(w.GetBoughtBefore().AsTime())
		}
		p.Ways = append(p.Ways, way)
	}
	return p
}

// fromPresale converts a presale; the message is empty for an event without one.
func fromPresale(p *event.Presale) *ticketv1.Presale {
	out := &ticketv1.Presale{OpensAt: timestamp(p.OpensAt)}
	if p.MaxPerUser > 0 {
		out.MaxPerUser = &p.MaxPerUser
	}
	for _, w := range p.Ways {
		way := &ticketv1.PresaleWay{
			PlanId: optional(w.PlanID), CodeList: optional(w.CodeList), List: optional(w.List), Claim: optional(w.Claim), Values: w.Values,
		}
		if w.BoughtBefore != nil {
			way.BoughtBefore = timestamppb.New(*w.BoughtBefore)
		}
		out.Any = append(out.Any, way)
	}
	return out
}

// shownPresale returns the presale as visitors see it: without the values that a claim must have.
func shownPresale(p *event.Presale) *ticketv1.Presale {
	out := fromPresale(p)
	for _, w := range out.GetAny() {
		w.Values = nil
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
