// Package ticket asks the service that owns what is paid.
package ticket

import (
	"context"

	"google.golang.org/grpc"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/payment"
)

// Client implements payment.Tickets over gRPC. Its errors are those of pkg/errs.
type Client struct{ payables ticketv1.PayableServiceClient }

var _ payment.Tickets = (*Client)(nil)

// NewClient makes a client on a connection to ticket.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{payables: ticketv1.NewPayableServiceClient(conn)}
}

// Payable implements payment.Tickets.
func (c *Client) Payable(ctx context.Context, ref payment.Reference, userID string) (payment.Payable, error) {
	out, err := c.payables.GetPayable(ctx, &ticketv1.GetPayableRequest{
		PaymentType: string(ref.Type), ReferenceId: ref.ID.String(), UserId: userID,
	})
	if err != nil {
		return payment.Payable{}, err
	}
	return payment.Payable{
		EventID: out.GetEventId(), Amount: out.GetAmount(), Currency: out.GetCurrency(), ExpiresAt: out.GetExpiresAt().AsTime(),
	}, nil
}

// Begin implements payment.Tickets.
func (c *Client) Begin(ctx context.Context, p payment.Payment) error {
	_, err := c.payables.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{
		PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(), PaymentId: p.ID.String(), UserId: p.UserID,
	})
	return err
}

// Abort implements payment.Tickets.
func (c *Client) Abort(ctx context.Context, p payment.Payment) error {
	_, err := c.payables.AbortPayment(ctx, &ticketv1.AbortPaymentRequest{
		PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(), PaymentId: p.ID.String(),
	})
	return err
}
