package app_test

import (
	"context"

	"google.golang.org/grpc"

	"urr.guru/pkg/errs"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fakeEntitlements accepts every code and list, except those for the event "absent".
type fakeEntitlements struct {
	callLog
}

func (f *fakeEntitlements) register(r grpc.ServiceRegistrar) {
	ticketv1.RegisterEntitlementServiceServer(r, &fakeUserEntitlements{fakeEntitlements: f})
	ticketv1.RegisterEntitlementAdminServiceServer(r, &fakeEntitlementAdmin{fakeEntitlements: f})
}

type fakeUserEntitlements struct {
	ticketv1.UnimplementedEntitlementServiceServer
	*fakeEntitlements
}

func (f *fakeUserEntitlements) GetMyEvent(_ context.Context, in *ticketv1.GetMyEventRequest) (*ticketv1.MyEvent, error) {
	f.add("GetMyEvent", in.GetCaller(), in)
	return &ticketv1.MyEvent{Left: 4}, nil
}

func (f *fakeUserEntitlements) UseCode(_ context.Context, in *ticketv1.UseCodeRequest) (*ticketv1.UseCodeResponse, error) {
	f.add("UseCode", in.GetCaller(), in)
	return &ticketv1.UseCodeResponse{}, nil
}

type fakeEntitlementAdmin struct {
	ticketv1.UnimplementedEntitlementAdminServiceServer
	*fakeEntitlements
}

func (f *fakeEntitlementAdmin) CreateCodes(_ context.Context, in *ticketv1.CreateCodesRequest) (*ticketv1.CodeBatch, error) {
	f.add("CreateCodes", in.GetCaller(), in)
	return &ticketv1.CodeBatch{CodeList: in.GetCodeList(), Codes: []string{"c"}}, nil
}

func (f *fakeEntitlementAdmin) ListCodes(_ context.Context, in *ticketv1.ListCodesRequest) (*ticketv1.ListCodesResponse, error) {
	f.add("ListCodes", in.GetCaller(), in)
	return &ticketv1.ListCodesResponse{}, nil
}

func (f *fakeEntitlementAdmin) WithdrawCodes(_ context.Context, in *ticketv1.WithdrawCodesRequest) (*ticketv1.CodeBatch, error) {
	f.add("WithdrawCodes", in.GetCaller(), in)
	return &ticketv1.CodeBatch{BatchId: in.GetBatchId()}, nil
}

func (f *fakeEntitlementAdmin) ListEntitlementLists(
	_ context.Context, in *ticketv1.ListEntitlementListsRequest,
) (*ticketv1.ListEntitlementListsResponse, error) {
	f.add("ListEntitlementLists", in.GetCaller(), in)
	return &ticketv1.ListEntitlementListsResponse{}, nil
}

func (f *fakeEntitlementAdmin) BeginUpload(_ context.Context, in *ticketv1.BeginUploadRequest) (*ticketv1.BeginUploadResponse, error) {
	f.add("BeginUpload", in.GetCaller(), in)
	if in.GetEventId() == "absent" {
		return nil, errs.ErrEventNotFound
	}
	return &ticketv1.BeginUploadResponse{UploadId: requestID}, nil
}

func (f *fakeEntitlementAdmin) AddToUpload(_ context.Context, in *ticketv1.AddToUploadRequest) (*ticketv1.AddToUploadResponse, error) {
	f.add("AddToUpload", in.GetCaller(), in)
	return &ticketv1.AddToUploadResponse{}, nil
}

func (f *fakeEntitlementAdmin) FinishUpload(_ context.Context, in *ticketv1.FinishUploadRequest) (*ticketv1.EntitlementList, error) {
	f.add("FinishUpload", in.GetCaller(), in)
	return &ticketv1.EntitlementList{UserIds: 2, Emails: 1, Added: 3}, nil
}

func (f *fakeEntitlementAdmin) ListEntitlementVersions(
	_ context.Context, in *ticketv1.ListEntitlementVersionsRequest,
) (*ticketv1.ListEntitlementListsResponse, error) {
	f.add("ListEntitlementVersions", in.GetCaller(), in)
	return &ticketv1.ListEntitlementListsResponse{}, nil
}

func (f *fakeEntitlementAdmin) ReadEntitlementVersion(
	_ context.Context, in *ticketv1.ReadEntitlementVersionRequest,
) (*ticketv1.EntitlementUsers, error) {
	f.add("ReadEntitlementVersion", in.GetCaller(), in)
	return &ticketv1.EntitlementUsers{}, nil
}
