// Package rpc serves the RPCs of urr.payment.v1.
package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/limits"
	"urr.guru/services/payment/internal/payment"
)

// roleAdmin is the role that operators' calls require. The gateway has checked it already.
const roleAdmin = "admin"

// Server serves payments and refunds to users and operators: PaymentService, PaymentAdminService,
// RefundService, RefundAdminService and DisputeAdminService of urr.payment.v1.
type Server struct {
	paymentv1.UnimplementedPaymentServiceServer
	paymentv1.UnimplementedPaymentAdminServiceServer
	paymentv1.UnimplementedRefundServiceServer
	paymentv1.UnimplementedRefundAdminServiceServer
	paymentv1.UnimplementedDisputeAdminServiceServer
	payments *payment.Service
}

// Register registers the services of a Server at r.
func Register(r grpc.ServiceRegistrar, payments *payment.Service) {
	s := &Server{payments: payments}
	paymentv1.RegisterPaymentServiceServer(r, s)
	paymentv1.RegisterPaymentAdminServiceServer(r, s)
	paymentv1.RegisterRefundServiceServer(r, s)
	paymentv1.RegisterRefundAdminServiceServer(r, s)
	paymentv1.RegisterDisputeAdminServiceServer(r, s)
}

func (s *Server) Prepare(ctx context.Context, in *paymentv1.PrepareRequest) (*paymentv1.PrepareResponse, error) {
	user, id, err := userAndID(in, in.GetReferenceId())
	if err != nil {
		return nil, err
	}
	p, page, err := s.payments.Prepare(ctx, payment.PrepareRequest{
		Reference:      payment.Reference{Type: payment.Type(in.GetPaymentType()), ID: id},
		UserID:         user,
		Email:          in.GetCaller().GetEmail(),
		Provider:       in.GetProvider(),
		IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
	})
	if err != nil {
		return nil, err
	}
	return toPrepared(p, page), nil
}

func (s *Server) ListProviders(_ context.Context, in *paymentv1.ListProvidersRequest) (*paymentv1.ListProvidersResponse, error) {
	list := s.payments.Providers(in.GetAmount(), in.GetCurrency())
	out := &paymentv1.ListProvidersResponse{Limits: limits.ToProto(list)}
	for _, l := range list {
		out.Providers = append(out.Providers, l.Name)
	}
	return out, nil
}

func (s *Server) CancelPayment(ctx context.Context, in *paymentv1.CancelPaymentRequest) (*paymentv1.Payment, error) {
	user, id, err := userAndID(in, in.GetPaymentId())
	if err != nil {
		return nil, err
	}
	p, err := s.payments.Cancel(ctx, id, user)
	if err != nil {
		return nil, err
	}
	return toPayment(p), nil
}

func (s *Server) ReturnPayment(ctx context.Context, in *paymentv1.ReturnPaymentRequest) (*paymentv1.ReturnPaymentResponse, error) {
	p, err := s.payments.Return(ctx, in.GetProvider(), in.GetParams(), in.GetLooks())
	if err != nil {
		return nil, err
	}
	return &paymentv1.ReturnPaymentResponse{
		PaymentId: p.ID.String(), PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(),
		Status: shownStatus(p), DeclineCode: optional(p.DeclineCode),
	}, nil
}

func (s *Server) Confirm(ctx context.Context, in *paymentv1.ConfirmRequest) (*paymentv1.ConfirmResponse, error) {
	user, err := rpc.UserFrom(in)
	if err != nil {
		return nil, err
	}
	a, err := s.payments.Confirm(ctx, payment.ConfirmRequest{
		OrderID:        in.GetOrderId(),
		UserID:         user,
		PaymentKey:     in.GetPaymentKey(),
		Amount:         in.GetAmount(),
		IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
	})
	if err != nil {
		return nil, err
	}
	return toConfirmed(a), nil
}

func (s *Server) GetPayment(ctx context.Context, in *paymentv1.GetPaymentRequest) (*paymentv1.Payment, error) {
	user, id, err := userAndID(in, in.GetPaymentId())
	if err != nil {
		return nil, err
	}
	p, err := s.payments.Get(ctx, id, user, rpc.HasRole(in.GetCaller(), roleAdmin))
	if err != nil {
		return nil, err
	}
	return toPayment(p), nil
}

func (s *Server) HandleWebhook(ctx context.Context, in *paymentv1.HandleWebhookRequest) (*paymentv1.HandleWebhookResponse, error) {
	if err := s.payments.Webhook(ctx, in.GetProvider(), in.GetHeaders(), in.GetBody()); err != nil {
		return nil, err
	}
	return &paymentv1.HandleWebhookResponse{}, nil
}

// userAndID returns the signed-in user of a request, and parses an id of the request.
func userAndID(in any, text string) (user string, id uuid.UUID, err error) {
	if user, err = rpc.UserFrom(in); err != nil {
		return user, id, err
	}
	if id, err = uuid.Parse(text); err != nil {
		err = errs.ErrInvalidID.Wrap(err)
	}
	return user, id, err
}
