package app_test

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"

	"urr.guru/pkg/errs"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

type fakePayment struct {
	paymentv1.UnimplementedPaymentServiceServer
	paymentv1.UnimplementedRefundServiceServer
	paymentv1.UnimplementedRefundAdminServiceServer
	paymentv1.UnimplementedDisputeAdminServiceServer
	paymentv1.UnimplementedDifferenceAdminServiceServer
	paymentv1.UnimplementedPaymentAdminServiceServer
	callLog
	// down makes FindPayments fail.
	down atomic.Bool
}

func (f *fakePayment) register(r grpc.ServiceRegistrar) {
	paymentv1.RegisterPaymentServiceServer(r, f)
	paymentv1.RegisterRefundServiceServer(r, f)
	paymentv1.RegisterRefundAdminServiceServer(r, f)
	paymentv1.RegisterDisputeAdminServiceServer(r, f)
	paymentv1.RegisterDifferenceAdminServiceServer(r, f)
	paymentv1.RegisterPaymentAdminServiceServer(r, f)
}

func (f *fakePayment) ListProviders(_ context.Context, in *paymentv1.ListProvidersRequest) (*paymentv1.ListProvidersResponse, error) {
	f.add("ListProviders", in.GetCaller(), in)
	return &paymentv1.ListProvidersResponse{Providers: []string{"sandbox"}}, nil
}

func (f *fakePayment) CancelPayment(_ context.Context, in *paymentv1.CancelPaymentRequest) (*paymentv1.Payment, error) {
	f.add("CancelPayment", in.GetCaller(), in)
	return &paymentv1.Payment{PaymentId: in.GetPaymentId(), Status: "EXPIRED"}, nil
}

func (f *fakePayment) ReturnPayment(_ context.Context, in *paymentv1.ReturnPaymentRequest) (*paymentv1.ReturnPaymentResponse, error) {
	if in.GetProvider() != "sandbox" || in.GetParams()["token"] != "t" {
		return nil, errs.ErrPaymentNotFound
	}
	status := "OPEN"
	if in.GetLooks() {
		status = "PENDING"
	}
	paymentType := "reservation"
	if suffix, found := strings.CutPrefix(in.GetParams()["orderId"], "o-"); found && suffix != "1" {
		paymentType = suffix
	}
	return &paymentv1.ReturnPaymentResponse{PaymentId: "p-1", PaymentType: paymentType, ReferenceId: requestID, Status: status}, nil
}

func (f *fakePayment) RefundPayment(_ context.Context, in *paymentv1.RefundPaymentRequest) (*paymentv1.Refund, error) {
	f.add("RefundPayment", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "PENDING"}, nil
}

func (f *fakePayment) RefundMembership(_ context.Context, in *paymentv1.RefundMembershipRequest) (*paymentv1.Refund, error) {
	f.add("RefundMembership", in.GetCaller(), in)
	return &paymentv1.Refund{}, nil
}

func (f *fakePayment) RefundAnyPayment(_ context.Context, in *paymentv1.RefundAnyPaymentRequest) (*paymentv1.Refund, error) {
	f.add("RefundAnyPayment", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "PENDING"}, nil
}

func (f *fakePayment) AssignByHand(_ context.Context, in *paymentv1.AssignByHandRequest) (*paymentv1.Refund, error) {
	f.add("AssignByHand", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "DONE"}, nil
}

func (f *fakePayment) ListRefunds(_ context.Context, in *paymentv1.ListRefundsRequest) (*paymentv1.ListRefundsResponse, error) {
	f.add("ListRefunds", in.GetCaller(), in)
	return &paymentv1.ListRefundsResponse{}, nil
}

func (f *fakePayment) HoldRefund(_ context.Context, in *paymentv1.HoldRefundRequest) (*paymentv1.Refund, error) {
	f.add("HoldRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "HELD"}, nil
}

func (f *fakePayment) RetryRefund(_ context.Context, in *paymentv1.RetryRefundRequest) (*paymentv1.Refund, error) {
	f.add("RetryRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "PENDING"}, nil
}

func (f *fakePayment) ResolveRefund(_ context.Context, in *paymentv1.ResolveRefundRequest) (*paymentv1.Refund, error) {
	f.add("ResolveRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "DONE"}, nil
}

func (f *fakePayment) ListDisputes(_ context.Context, in *paymentv1.ListDisputesRequest) (*paymentv1.ListDisputesResponse, error) {
	f.add("ListDisputes", in.GetCaller(), in)
	return &paymentv1.ListDisputesResponse{}, nil
}

func (f *fakePayment) ListDifferences(_ context.Context, in *paymentv1.ListDifferencesRequest) (*paymentv1.ListDifferencesResponse, error) {
	f.add("ListDifferences", in.GetCaller(), in)
	return &paymentv1.ListDifferencesResponse{}, nil
}

func (f *fakePayment) CloseDifference(_ context.Context, in *paymentv1.CloseDifferenceRequest) (*paymentv1.Difference, error) {
	f.add("CloseDifference", in.GetCaller(), in)
	return &paymentv1.Difference{DifferenceId: in.GetDifferenceId(), Status: "CLOSED"}, nil
}

func (f *fakePayment) Prepare(_ context.Context, in *paymentv1.PrepareRequest) (*paymentv1.PrepareResponse, error) {
	f.add("Prepare", in.GetCaller(), in)
	return &paymentv1.PrepareResponse{PaymentId: requestID, Amount: 55000}, nil
}

func (f *fakePayment) Confirm(_ context.Context, in *paymentv1.ConfirmRequest) (*paymentv1.ConfirmResponse, error) {
	f.add("Confirm", in.GetCaller(), in)
	return &paymentv1.ConfirmResponse{Status: "CONFIRMED"}, nil
}

func (f *fakePayment) GetPayment(_ context.Context, in *paymentv1.GetPaymentRequest) (*paymentv1.Payment, error) {
	f.add("GetPayment", in.GetCaller(), in)
	return &paymentv1.Payment{PaymentId: in.GetPaymentId(), ReferenceId: requestID}, nil
}

func (f *fakePayment) HandleWebhook(_ context.Context, in *paymentv1.HandleWebhookRequest) (*paymentv1.HandleWebhookResponse, error) {
	f.add("HandleWebhook", nil, in)
	return &paymentv1.HandleWebhookResponse{}, nil
}
