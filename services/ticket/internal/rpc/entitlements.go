package rpc

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/entitlement"
)

// Entitlements serves the RPCs about who may buy in presales, and those that take users' codes.
type Entitlements struct {
	ticketv1.UnimplementedEntitlementServiceServer

	entitlements *entitlement.Service
}

// NewEntitlements makes a server that calls s for entitlements.
func NewEntitlements(s *entitlement.Service) *Entitlements { return &Entitlements{entitlements: s} }

func (s *Entitlements) HoldsEntitlement(ctx context.Context, req *ticketv1.HoldsEntitlementRequest) (*ticketv1.HoldsEntitlementResponse, error) {
	users := make([]entitlement.User, len(req.GetUsers()))
	for i, u := range req.GetUsers() {
		users[i] = entitlement.User{ID: u.GetUserId(), Email: u.GetEmail(), Claims: u.GetClaims()}
	}
	entitled, err := s.entitlements.HoldAny(ctx, req.GetEventId(), users)
	if err != nil {
		return nil, err
	}
	return &ticketv1.HoldsEntitlementResponse{Entitled: entitled}, nil
}

func (s *Entitlements) GetMyEvent(ctx context.Context, req *ticketv1.GetMyEventRequest) (*ticketv1.MyEvent, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	c := req.GetCaller()
	allowance, err := s.entitlements.AllowanceOf(ctx, req.GetEventId(), entitlement.User{ID: user, Email: c.GetEmail(), Claims: c.GetClaims()})
	if err != nil {
		return nil, err
	}
	return &ticketv1.MyEvent{
		Entitled: allowance.Kind != entitlement.None, By: optional(string(allowance.Kind)), GeneralOpensAt: timestamp(allowance.GeneralOpensAt), Left: allowance.Left,
	}, nil
}

func (s *Entitlements) UseCode(ctx context.Context, req *ticketv1.UseCodeRequest) (*ticketv1.UseCodeResponse, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	if err := s.entitlements.UseCode(ctx, req.GetEventId(), user, req.GetCode()); err != nil {
		return nil, err
	}
	return &ticketv1.UseCodeResponse{}, nil
}

// EntitlementAdmin serves the RPCs with which operators make codes and upload lists of users.
type EntitlementAdmin struct {
	ticketv1.UnimplementedEntitlementAdminServiceServer

	entitlements *entitlement.Service
}

// NewEntitlementAdmin makes a server that calls s for codes and lists.
func NewEntitlementAdmin(s *entitlement.Service) *EntitlementAdmin {
	return &EntitlementAdmin{entitlements: s}
}

func (s *EntitlementAdmin) CreateCodes(ctx context.Context, req *ticketv1.CreateCodesRequest) (*ticketv1.CodeBatch, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	b := entitlement.Batch{EventID: req.GetEventId(), CodeList: req.GetCodeList(), Count: req.GetCount(), Uses: max(1, req.GetUses())}
	b, codes, err := s.entitlements.MakeCodes(ctx, b)
	if err != nil {
		return nil, err
	}
	out := fromBatch(&b)
	out.Codes = codes
	return out, nil
}

func (s *EntitlementAdmin) ListCodes(ctx context.Context, req *ticketv1.ListCodesRequest) (*ticketv1.ListCodesResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	batches, err := s.entitlements.Batches(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListCodesResponse{Items: make([]*ticketv1.CodeBatch, len(batches))}
	for i := range batches {
		res.Items[i] = fromBatch(&batches[i])
	}
	return res, nil
}

func (s *EntitlementAdmin) WithdrawCodes(ctx context.Context, req *ticketv1.WithdrawCodesRequest) (*ticketv1.CodeBatch, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	id, err := parseID(req.GetBatchId())
	if err != nil {
		return nil, err
	}
	b, err := s.entitlements.Withdraw(ctx, req.GetEventId(), id)
	if err != nil {
		return nil, err
	}
	return fromBatch(&b), nil
}

func (s *EntitlementAdmin) ListEntitlementLists(
	ctx context.Context, req *ticketv1.ListEntitlementListsRequest,
) (*ticketv1.ListEntitlementListsResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	lists, err := s.entitlements.Lists(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListEntitlementListsResponse{Items: make([]*ticketv1.EntitlementList, len(lists))}
	for i := range lists {
		res.Items[i] = fromList(&lists[i])
	}
	return res, nil
}

// versionsPage is how many versions a page has unless the caller asks for another number.
const versionsPage = 20

func (s *EntitlementAdmin) ListEntitlementVersions(
	ctx context.Context, req *ticketv1.ListEntitlementVersionsRequest,
) (*ticketv1.ListEntitlementListsResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(int(req.GetLimit()), versionsPage)
	lists, err := s.entitlements.Versions(ctx, req.GetEventId(), req.GetList(), cmp.Or(before, uuid.Max), limit+1)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListEntitlementListsResponse{}
	if len(lists) > limit {
		lists = lists[:limit]
		res.NextCursor = cursor.ID(lists[limit-1].Version)
	}
	for i := range lists {
		res.Items = append(res.Items, fromList(&lists[i]))
	}
	return res, nil
}

func (s *EntitlementAdmin) ReadEntitlementVersion(
	ctx context.Context, req *ticketv1.ReadEntitlementVersionRequest,
) (*ticketv1.EntitlementUsers, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	version, err := parseID(req.GetVersion())
	if err != nil {
		return nil, err
	}
	after := entitlement.Entry{IsEmail: req.GetAfterEmail(), Value: req.GetAfter()}
	entries, err := s.entitlements.Entries(ctx, req.GetEventId(), req.GetList(), version, after)
	if err != nil {
		return nil, err
	}
	users := &ticketv1.EntitlementUsers{}
	for _, e := range entries {
		if e.IsEmail {
			users.Emails = append(users.Emails, e.Value)
		} else {
			users.UserIds = append(users.UserIds, e.Value)
		}
	}
	return users, nil
}

func (s *EntitlementAdmin) BeginUpload(ctx context.Context, req *ticketv1.BeginUploadRequest) (*ticketv1.BeginUploadResponse, error) {
	operator, err := rpc.RequireRole(req, roleAdmin)
	if err != nil {
		return nil, err
	}
	id, err := s.entitlements.BeginUpload(ctx, req.GetEventId(), req.GetList(), operator)
	if err != nil {
		return nil, err
	}
	return &ticketv1.BeginUploadResponse{UploadId: id.String()}, nil
}

func (s *EntitlementAdmin) AddToUpload(ctx context.Context, req *ticketv1.AddToUploadRequest) (*ticketv1.AddToUploadResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	id, err := parseID(req.GetUploadId())
	if err != nil {
		return nil, err
	}
	for _, user := range req.GetUserIds() {
		if !ids.ValidUser(user) {
			return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "userIds", Message: "has a member that is not a user id"})
		}
	}
	for _, email := range req.GetEmails() {
		if email == "" || len(email) > ids.MaxEmail {
			return nil, invalidField("emails", "has a member that is not an e-mail address")
		}
	}
	if err := s.entitlements.AddToUpload(ctx, id, req.GetUserIds(), req.GetEmails()); err != nil {
		return nil, err
	}
	return &ticketv1.AddToUploadResponse{}, nil
}

func (s *EntitlementAdmin) FinishUpload(ctx context.Context, req *ticketv1.FinishUploadRequest) (*ticketv1.EntitlementList, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	id, err := parseID(req.GetUploadId())
	if err != nil {
		return nil, err
	}
	list, err := s.entitlements.FinishUpload(ctx, id, req.GetSha256())
	if err != nil {
		return nil, err
	}
	return fromList(&list), nil
}

func fromBatch(b *entitlement.Batch) *ticketv1.CodeBatch {
	return &ticketv1.CodeBatch{
		BatchId: b.ID.String(), CodeList: b.CodeList, Count: int64(b.Count), Uses: int64(b.Uses), Used: b.Used,
		CreatedAt: timestamp(b.CreatedAt), WithdrawnAt: timestamp(b.WithdrawnAt),
	}
}

func fromList(l *entitlement.UploadedList) *ticketv1.EntitlementList {
	return &ticketv1.EntitlementList{
		List: l.Name, UserIds: l.UserIDs, Emails: l.Emails, UpdatedAt: timestamp(l.UpdatedAt), Version: l.Version.String(), Added: l.Added,
		Removed: l.Removed, Sha256: l.SHA256, UploadedBy: l.UploadedBy, ReplacedAt: timestamp(l.ReplacedAt),
	}
}
