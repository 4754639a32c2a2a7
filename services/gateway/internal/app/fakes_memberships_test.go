package app_test

import (
	"context"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func (f *fakeTicket) ListPlans(context.Context, *ticketv1.ListPlansRequest) (*ticketv1.ListPlansResponse, error) {
	f.add("ListPlans", nil, nil)
	return &ticketv1.ListPlansResponse{}, nil
}

func (f *fakeTicket) BuyMembership(_ context.Context, in *ticketv1.BuyMembershipRequest) (*ticketv1.Membership, error) {
	f.add("BuyMembership", in.GetCaller(), in)
	return &ticketv1.Membership{}, nil
}

func (f *fakeTicket) ListMyMemberships(_ context.Context, in *ticketv1.ListMyMembershipsRequest) (*ticketv1.ListMembershipsResponse, error) {
	f.add("ListMyMemberships", in.GetCaller(), in)
	return &ticketv1.ListMembershipsResponse{}, nil
}

func (f *fakeTicket) GetMyMembership(_ context.Context, in *ticketv1.GetMyMembershipRequest) (*ticketv1.Membership, error) {
	f.add("GetMyMembership", in.GetCaller(), in)
	return &ticketv1.Membership{}, nil
}

func (f *fakeTicket) CreatePlan(_ context.Context, in *ticketv1.CreatePlanRequest) (*ticketv1.Plan, error) {
	f.add("CreatePlan", in.GetCaller(), in)
	return &ticketv1.Plan{}, nil
}

func (f *fakeTicket) UpdatePlan(_ context.Context, in *ticketv1.UpdatePlanRequest) (*ticketv1.Plan, error) {
	f.add("UpdatePlan", in.GetCaller(), in)
	return &ticketv1.Plan{}, nil
}

func (f *fakeTicket) ListAllPlans(_ context.Context, in *ticketv1.ListAllPlansRequest) (*ticketv1.ListPlansResponse, error) {
	f.add("ListAllPlans", in.GetCaller(), in)
	return &ticketv1.ListPlansResponse{}, nil
}

func (f *fakeTicket) ListMembershipsOf(_ context.Context, in *ticketv1.ListMembershipsOfRequest) (*ticketv1.ListMembershipsResponse, error) {
	f.add("ListMembershipsOf", in.GetCaller(), in)
	return &ticketv1.ListMembershipsResponse{}, nil
}
