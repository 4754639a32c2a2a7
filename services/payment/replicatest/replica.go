// Package replicatest runs the payment service's code in the process of a test that drives several
// services at once. The test controls its clock and its connections, so that hours pass in moments,
// and a process can die between any two of its writes.
package replicatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/services/payment/internal/guard"
	paymentkafka "urr.guru/services/payment/internal/kafka"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

// Migrations create the tables of the payment service's database.
var Migrations = postgres.Migrations

// Options are the dependencies of a Replica, which the test provides.
type Options struct {
	Pool *pgxpool.Pool
	// Tickets connects to the ticket service, Provider to the sandbox provider.
	Tickets  grpc.ClientConnInterface
	Provider http.RoundTripper
	// Secret is the secret with which the provider signs its webhooks.
	Secret string
	// KeyLife is how long the provider keeps the key of a refund.
	KeyLife time.Duration
	Now     func() time.Time
	Log     *slog.Logger
}

// Replica is one process of the service, without its servers, outbox relay and background loops.
type Replica struct {
	service *payment.Service
	consume func(context.Context, kafka.Record) error
}

// callTime is the time limit of calls, far more than any call takes: the test decides which calls
// get no answer. A claim must last as long, so holds must be extensible by more than callTime.
const callTime = 2 * time.Minute

// New returns a Replica with these dependencies.
func New(o Options) *Replica {
	provider := sandbox.NewClient("http://sandbox", config.Secret(o.Secret), sandbox.Options{
		Timeout: callTime, KeyLife: o.KeyLife, Now: o.Now, Transport: o.Provider,
	})
	guarded := guard.New(provider, guard.Limits{ChargesAtOnce: 64})
	store := postgres.NewStore(o.Pool, postgres.Options{Now: o.Now})
	providers := payment.Providers{Default: sandbox.Name, ByName: map[string]payment.Provider{sandbox.Name: guarded}}
	s := payment.New(store, ticket.NewClient(o.Tickets), providers, o.Log, payment.Options{Now: o.Now})
	return &Replica{service: s, consume: paymentkafka.Handle(s)}
}

// Register registers the RPCs of the payment service at s.
func (r *Replica) Register(s grpc.ServiceRegistrar) {
	rpc.Register(s, r.service)
}

// Consume handles one Kafka event of the topic reservation-events.
func (r *Replica) Consume(ctx context.Context, rec kafka.Record) error { return r.consume(ctx, rec) }

// Sweep runs the sweeper once, on all payments and refunds that are due.
func (r *Replica) Sweep(ctx context.Context) { r.service.SweepOnce(ctx) }

// RequestRefund asks for a refund of tickets of a payment; without tickets, of all its valid ones.
// If an operator asks, the fees are refunded too.
func (r *Replica) RequestRefund(ctx context.Context, paymentID uuid.UUID, cause, userID, key string, tickets []uuid.UUID) error {
	_, _, err := r.service.RequestRefund(ctx, payment.RefundRequest{
		PaymentID: paymentID, Cause: payment.Cause(cause), Reason: "test", Scope: payment.RefundScope{UserID: userID, TicketIDs: tickets}, IdempotencyKey: key,
	})
	return refusal(err)
}

// HoldRefund makes a PENDING refund HELD.
func (r *Replica) HoldRefund(ctx context.Context, id uuid.UUID) error {
	_, err := r.service.HoldRefund(ctx, id)
	return refusal(err)
}

// RetryRefund has a HELD refund, which waits for an operator's decision, sent again.
func (r *Replica) RetryRefund(ctx context.Context, id uuid.UUID) error {
	_, err := r.service.RetryRefund(ctx, id, nil)
	return refusal(err)
}

// ResolveRefund ends a HELD refund as paid by hand at the provider, or in another way.
func (r *Replica) ResolveRefund(ctx context.Context, id uuid.UUID, byHand bool) error {
	_, err := r.service.ResolveRefund(ctx, id, byHand, "paid by a person")
	return refusal(err)
}

// AssignByHand says, as an operator, that money given back by hand was for tickets, or without them
// that this part of it was goodwill.
func (r *Replica) AssignByHand(ctx context.Context, paymentID uuid.UUID, key string, tickets []uuid.UUID, goodwill int64) error {
	_, _, err := r.service.RequestRefund(ctx, payment.RefundRequest{
		PaymentID: paymentID, Cause: payment.ByHand, Reason: "test", IdempotencyKey: key,
		Scope: payment.RefundScope{UserID: "op", TicketIDs: tickets, Goodwill: goodwill},
	})
	return refusal(err)
}

// Wait waits until all charges in progress have ended.
func (r *Replica) Wait(ctx context.Context) error { return r.service.Wait(ctx) }

// ErrRefused marks errors by which the service refuses a request, as it may in normal operation.
var ErrRefused = errors.New("refused")

func refusal(err error) error {
	for _, refused := range []error{
		payment.ErrNotRefundable, payment.ErrNotHeld, payment.ErrNotPending, payment.ErrNotFound, payment.ErrRefundNotFound, payment.ErrTicketsPending,
		payment.ErrTooManyRefunds, payment.ErrNotPaidByHand, payment.ErrNothingByHand,
	} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return err
}
