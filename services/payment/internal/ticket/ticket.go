// Package ticket is the client of the ticket service, which has the objects that are paid for.
package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/limits"
	"urr.guru/services/payment/internal/payment"
)

// Client calls the ticket service over gRPC. It asks for amounts, and claims and releases
// references and tickets. Its errors are refusals (payment.Refusal), or say that the service is
// unavailable.
type Client struct {
	payables ticketv1.PayableServiceClient
	// providers is what the configured providers take, which every call of Settlement says.
	providers []*commonv1.ProviderLimits
}

var _ payment.Tickets = (*Client)(nil)

// NewClient returns a Client that calls the ticket service over conn, and tells it what the
// configured providers take.
func NewClient(conn grpc.ClientConnInterface, providers ...payment.ProviderLimits) *Client {
	return &Client{payables: ticketv1.NewPayableServiceClient(conn), providers: limits.ToProto(providers)}
}

func (c *Client) Payable(ctx context.Context, ref payment.Reference, userID string) (payment.Payable, error) {
	out, err := c.payables.GetPayable(ctx, &ticketv1.GetPayableRequest{
		PaymentType: string(ref.Type), ReferenceId: ref.ID.String(), UserId: userID,
	})
	if err != nil {
		return payment.Payable{}, refusalOrUnavailable(err)
	}
	return payment.Payable{
		EventID: out.GetEventId(), Amount: out.GetAmount(), Currency: out.GetCurrency(), ExpiresAt: out.GetExpiresAt().AsTime(),
		Description: out.GetDescription(), StatementSuffix: out.GetStatementSuffix(),
	}, nil
}

func (c *Client) Begin(ctx context.Context, p payment.Payment, t payment.PayTime) (time.Time, error) {
	out, err := c.payables.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{
		PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(), PaymentId: p.ID.String(), UserId: p.UserID,
		Within: durationpb.New(t.Within), AtLeast: durationpb.New(t.AtLeast), Opens: t.Opens,
	})
	return out.GetExpiresAt().AsTime(), refusalOrUnavailable(err)
}

func (c *Client) Extend(ctx context.Context, payments []payment.Payment) ([]uuid.UUID, error) {
	in := &ticketv1.ExtendPaymentsRequest{}
	for _, p := range payments {
		in.Payments = append(in.Payments, &ticketv1.PaymentUnderWay{
			PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(), PaymentId: p.ID.String(),
		})
	}
	out, err := c.payables.ExtendPayments(ctx, in)
	if err != nil {
		return nil, refusalOrUnavailable(err)
	}
	ids := make([]uuid.UUID, len(out.GetPaymentIds()))
	for i, text := range out.GetPaymentIds() {
		if ids[i], err = uuid.Parse(text); err != nil {
			return nil, errs.ErrUnavailable.Wrap(fmt.Errorf("payment under way: %w", err))
		}
	}
	return ids, nil
}

func (c *Client) Settlement(ctx context.Context) (payment.Settlement, error) {
	out, err := c.payables.GetSettlement(ctx, &ticketv1.GetSettlementRequest{Providers: c.providers})
	return payment.Settlement{
		Oldest: milliseconds(out.GetOldestUnappliedMs()), MeasuredAgo: milliseconds(out.GetMeasuredAgoMs()),
		MaxExtension: milliseconds(out.GetHoldMaxExtensionMs()),
	}, err
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (c *Client) Abort(ctx context.Context, p payment.Payment) error {
	_, err := c.payables.AbortPayment(ctx, &ticketv1.AbortPaymentRequest{
		PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(), PaymentId: p.ID.String(),
		Declined: p.Status == payment.Declined || p.DeclineCode != "", Unopened: p.Unopened(),
	})
	return refusalOrUnavailable(err)
}

func (c *Client) BeginRefund(ctx context.Context, p payment.Payment, r payment.Refund) (payment.Claim, error) {
	in := &ticketv1.BeginRefundRequest{
		RefundId: r.ID.String(), PaymentId: p.ID.String(), PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(),
		Cause: string(r.Cause), Fees: r.Scope.Fees, Whole: r.Scope.Whole, HandLimit: r.Scope.HandLimit, AskedAt: timestamppb.New(r.CreatedAt),
		ShownAmount: r.Scope.Shown,
	}
	if r.Cause == payment.ByUser {
		in.UserId = r.Scope.UserID
	}
	for _, id := range r.Scope.TicketIDs {
		in.TicketIds = append(in.TicketIds, id.String())
	}
	out, err := c.payables.BeginRefund(ctx, in)
	if err != nil {
		return payment.Claim{}, refusalOrUnavailable(err)
	}
	switch out.GetStatus() {
	case "BEGUN", "DONE":
		return toClaim(out)
	case "REFUSED", "ABORTED":
		claim, err := toClaim(out)
		claim.Refused, claim.Reason = true, cmp.Or(out.GetReason(), out.GetStatus())
		return claim, err
	default:
		return payment.Claim{}, errs.ErrUnavailable.Wrap(fmt.Errorf("claim of refund %s has the unknown status %q", r.ID, out.GetStatus()))
	}
}

func toClaim(out *ticketv1.RefundClaim) (payment.Claim, error) {
	claim := payment.Claim{MembershipAmount: out.GetMembershipAmount(), PresentAmount: out.GetPresentAmount()}
	if claim.MembershipAmount < 0 || claim.PresentAmount < 0 {
		return payment.Claim{}, errs.ErrUnavailable.Wrap(fmt.Errorf("amounts of a claim: %d, %d", claim.MembershipAmount, claim.PresentAmount))
	}
	for _, item := range out.GetItems() {
		id, err := uuid.Parse(item.GetTicketId())
		if err != nil || item.GetAmount() < 0 {
			return payment.Claim{}, errs.ErrUnavailable.Wrap(fmt.Errorf("item %v of a claim: %w", item, err))
		}
		claim.Items = append(claim.Items, payment.RefundItem{TicketID: id, Amount: item.GetAmount()})
	}
	for _, problem := range out.GetProblems() {
		id, err := uuid.Parse(problem.GetTicketId())
		if err != nil {
			return payment.Claim{}, errs.ErrUnavailable.Wrap(fmt.Errorf("problem %v of a claim: %w", problem, err))
		}
		claim.Excluded = append(claim.Excluded, payment.ExcludedTicket{TicketID: id, Reason: problem.GetReason()})
	}
	return claim, nil
}

func (c *Client) MembershipPayment(ctx context.Context, membershipID uuid.UUID) (uuid.UUID, error) {
	out, err := c.payables.GetMembershipPayment(ctx, &ticketv1.GetMembershipPaymentRequest{MembershipId: membershipID.String()})
	for _, refusal := range []error{payment.ErrMembershipNotFound, payment.ErrNotRefundable} {
		if errors.Is(err, refusal) {
			return uuid.Nil, err
		}
	}
	if err != nil {
		return uuid.Nil, refusalOrUnavailable(err)
	}
	id, err := uuid.Parse(out.GetPaymentId())
	if err != nil {
		return uuid.Nil, errs.ErrUnavailable.Wrap(fmt.Errorf("payment of membership %s: %w", membershipID, err))
	}
	return id, nil
}

func (c *Client) Settled(ctx context.Context, ids ...uuid.UUID) ([]payment.Settled, error) {
	in := &ticketv1.FindSettledRequest{PaymentIds: make([]string, len(ids))}
	for i, id := range ids {
		in.PaymentIds[i] = id.String()
	}
	out, err := c.payables.FindSettled(ctx, in)
	if err != nil {
		return nil, refusalOrUnavailable(err)
	}
	return toSettled(out.GetPayments())
}

// ListSettled returns a page of the payments of tickets and memberships that came into being at or after
// from and before until. The first call has an empty cursor, and each later one has next of the call
// before, until next is empty.
func (c *Client) ListSettled(ctx context.Context, from, until time.Time, cursor string) (list []payment.Settled, next string, err error) {
	out, err := c.payables.ListSettled(ctx, &ticketv1.ListSettledRequest{From: timestamppb.New(from), Until: timestamppb.New(until), Cursor: cursor})
	if err != nil {
		return nil, "", refusalOrUnavailable(err)
	}
	list, err = toSettled(out.GetPayments())
	return list, out.GetNextCursor(), err
}

func toSettled(payments []*ticketv1.SettledPayment) ([]payment.Settled, error) {
	list := make([]payment.Settled, len(payments))
	for i, p := range payments {
		id, err := uuid.Parse(p.GetPaymentId())
		if err != nil {
			return nil, errs.ErrUnavailable.Wrap(fmt.Errorf("settled payment: %w", err))
		}
		list[i] = payment.Settled{
			PaymentID: id, Rejected: p.GetRejectedReason(), UserID: p.GetUserId(), Paid: p.GetPaid(), Kept: p.GetKept(), Currency: p.GetCurrency(),
		}
	}
	return list, nil
}

func (c *Client) AbortRefund(ctx context.Context, refundID uuid.UUID) error {
	_, err := c.payables.AbortRefund(ctx, &ticketv1.AbortRefundRequest{RefundId: refundID.String()})
	return refusalOrUnavailable(err)
}

// refusalOrUnavailable returns refusals, and errors that say that the ticket service is
// unavailable, as they are. Any other error becomes ErrUnavailable: it comes from a proxy, decides
// nothing about the payment, and is not meant for the payer.
func refusalOrUnavailable(err error) error {
	if err == nil {
		return nil
	}
	if _, refused := payment.Refusal(err); refused {
		return err
	}
	switch errs.From(err).Kind {
	case errs.Unavailable, errs.Deadline, errs.Exhausted, errs.Canceled:
		return err
	default:
		return errs.ErrUnavailable.Wrap(err)
	}
}
