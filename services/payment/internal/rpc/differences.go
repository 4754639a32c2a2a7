package rpc

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/reconcile"
)

// differences serves DifferenceAdminService, with which operators list and close differences.
type differences struct {
	paymentv1.UnimplementedDifferenceAdminServiceServer

	store reconcile.DifferenceAdmin
}

// RegisterDifferences registers DifferenceAdminService at r.
func RegisterDifferences(r grpc.ServiceRegistrar, store reconcile.DifferenceAdmin) {
	paymentv1.RegisterDifferenceAdminServiceServer(r, &differences{store: store})
}

func (s *differences) ListDifferences(ctx context.Context, in *paymentv1.ListDifferencesRequest) (*paymentv1.ListDifferencesResponse, error) {
	if _, err := rpc.RequireRole(in, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(in.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(int(in.GetLimit()), defaultLimit)
	list, err := s.store.ListDifferences(ctx, reconcile.Status(cmp.Or(in.GetStatus(), string(reconcile.Open))), limit+1, before)
	if err != nil {
		return nil, err
	}
	out := &paymentv1.ListDifferencesResponse{}
	for i, d := range list {
		if i == limit {
			out.NextCursor = cursor.ID(list[i-1].ID)
			break
		}
		out.Items = append(out.Items, toDifference(d))
	}
	return out, nil
}

func (s *differences) CloseDifference(ctx context.Context, in *paymentv1.CloseDifferenceRequest) (*paymentv1.Difference, error) {
	user, err := rpc.RequireRole(in, roleAdmin)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(in.GetDifferenceId())
	if err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	d, err := s.store.CloseDifference(ctx, id, user, in.GetNote())
	if err != nil {
		return nil, err
	}
	return toDifference(d), nil
}

func toDifference(d reconcile.Stored) *paymentv1.Difference {
	out := &paymentv1.Difference{
		DifferenceId: d.ID.String(), Provider: d.Provider, Kind: string(d.Kind), OrderId: d.OrderID, EntryId: d.EntryID, Ours: d.Ours,
		Theirs: d.Theirs, Status: string(d.Status), Day: d.Day.Format(time.DateOnly), FirstSeen: timestamppb.New(d.FirstSeen),
		LastSeen: timestamppb.New(d.LastSeen), ClosedAt: toTime(d.ClosedAt), ClosedBy: d.ClosedBy, Note: d.Note,
	}
	if d.PaymentID != uuid.Nil {
		out.PaymentId = d.PaymentID.String()
	}
	return out
}
