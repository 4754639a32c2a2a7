package payment

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/loop"
)

const (
	// The first lookup of an unknown charge comes after firstPoll; later ones are up to maxPoll
	// apart.
	firstPoll = time.Second
	maxPoll   = 30 * time.Second
	// abortRetry is the wait before a failed release at ticket is first retried.
	abortRetry = 5 * time.Second
	// abandonAfter is the age from which a charge that the provider does not know counts as never
	// made, even if it cannot be voided.
	abandonAfter = 15 * time.Minute
	// leaseTime is the sweeper's lease on a payment or refund. It is well above the provider's
	// timeout.
	leaseTime = time.Minute
	// ticketTimeout bounds the claim and the release of a reference during a confirmation, so that
	// a silent ticket service leaves the time that the charge needs.
	ticketTimeout = 3 * time.Second
	// writeTimeout bounds a write that must not end with the call that led to it.
	writeTimeout = 5 * time.Second
	// answerMargin is the time before the request's deadline at which the answer is PENDING.
	answerMargin = 250 * time.Millisecond
)

// Options of the service.
type Options struct {
	// Provider is the name of the only provider.
	Provider        string
	ProviderTimeout time.Duration // of one call
	// VoidAfter is the age at which a charge that the provider does not know is voided; until then
	// it may still arrive.
	VoidAfter time.Duration
	Observe   Observer
	// Published is called after each commit that wrote events; nil: the relay finds them by
	// polling.
	Published func()
	// Now is set by tests only; nil: time.Now. The store has its own clock.
	Now func() time.Time
}

// Tickets is the client of the ticket service, which has the prices and the claims of references.
type Tickets interface {
	// Payable returns the amount that a user has to pay for a reference.
	Payable(ctx context.Context, ref Reference, userID string) (Payable, error)
	// Begin claims the reference for a payment, so that nobody else gets it during the charge. It
	// is idempotent.
	Begin(ctx context.Context, p Payment) error
	// Unsettled returns the age of the oldest payment event that ticket has not applied, and the
	// time since the answering replica measured it.
	Unsettled(ctx context.Context) (oldest, measuredAgo time.Duration, err error)
	// Abort releases the reference. It is idempotent, and does nothing when the reference is not
	// claimed for this payment.
	Abort(ctx context.Context, p Payment) error
}

// Provider charges cards. After an error the outcome is unknown, except for ErrNotSent and
// ErrNotAdmitted.
type Provider interface {
	// Charge takes the money, once per order.
	Charge(ctx context.Context, p Payment) (Outcome, error)
	// Lookup returns the outcome of an order.
	Lookup(ctx context.Context, orderID string) (Outcome, error)
	// Void makes a later charge of the order impossible. The outcome is Void, or Captured when the
	// order was already charged.
	Void(ctx context.Context, orderID string) (Outcome, error)
	// Refund refunds r once per r.ID and returns the provider's id of it; ErrRefundRefused when the
	// provider refuses.
	Refund(ctx context.Context, r Refund) (string, error)
}

// Checkout serves a provider's page and webhooks.
type Checkout interface {
	// ClientParams returns the parameters of the page that collects the payment key.
	ClientParams(p Payment) map[string]string
	// Webhook verifies and decodes a webhook. ErrWebhookSignature when the signature is wrong.
	Webhook(headers map[string]string, body []byte, now time.Time) (Notice, error)
}

// Notice is the content of a webhook.
type Notice struct {
	// OrderID is empty for a webhook that can be ignored.
	OrderID string
	Refund  bool // it is about a refund, not about a charge
}

// State is the state of a charge at the provider.
type State int

// The states of a charge.
const (
	Absent State = iota // the provider does not know the order
	Captured
	Refused
	Pending
	Void // the order can never be charged
)

// Outcome is the provider's answer about a charge.
type Outcome struct {
	State       State
	ChargeID    string
	DeclineCode string
	// Amount is the captured amount, Refunded the part of it that was refunded since.
	Amount, Refunded int64
}

// Store keeps payments; every method is one transaction.
type Store interface {
	// Open returns the open payment of the reference, or stores and returns n. With a repeated key
	// it returns the payment of the first request.
	Open(ctx context.Context, n Payment, key *idempotency.Key) (Payment, error)
	// Replay returns the payment that a request with this key has opened, nil when there is none.
	Replay(ctx context.Context, key *idempotency.Key) (*Payment, error)
	// Begin applies decide to an order's payment, as Apply does, under the key of a confirmation.
	Begin(ctx context.Context, orderID string, key *idempotency.Key, decide Decide) (Begun, error)
	// Apply locks a payment, calls decide, writes the change and returns the payment after it.
	Apply(ctx context.Context, id uuid.UUID, decide Decide) (Payment, error)
}

// Begun is the result of Store.Begin.
type Begun struct {
	Payment    Payment
	MustCharge bool    // this request has to make the charge
	Replayed   *Answer // the first answer to a repeated key
}

// Reader reads payments.
type Reader interface {
	// Get returns a payment, or ErrNotFound.
	Get(ctx context.Context, id uuid.UUID) (Payment, error)
	// Show returns a payment with its timeline, or ErrNotFound. It is for payers who look again and
	// again, and takes no connections of charges.
	Show(ctx context.Context, id uuid.UUID) (Payment, []Entry, error)
}

// Lane is a kind of the sweeper's work. Each lane has its own workers, so that a dependency that
// does not answer delays only the work that needs it.
type Lane string

// The lanes of payments, by what their work needs. Refunds have a lane of their own.
const (
	Expiries Lane = "EXPIRIES" // unpaid payments whose time is over: the database only
	Releases Lane = "RELEASES" // references to give back to ticket
	Charges  Lane = "CHARGES"  // charges to look up at the provider
)

// Sweeps is the part of the store that the sweeper uses to claim and reschedule due payments.
type Sweeps interface {
	// ClaimDue leases up to n due payments of a lane and returns them with the database's time.
	ClaimDue(ctx context.Context, lane Lane, n int, lease time.Duration) ([]Payment, time.Time, error)
	// Reschedule sets the time of the next check while the lease holds. Never also records that the
	// reference was released and that a hint was followed up; a PREPARED payment still expires.
	Reschedule(ctx context.Context, p Payment, wait time.Duration) error
	// Released records that the reference was released and makes the payment due at once in its
	// next lane, while the lease holds.
	Released(ctx context.Context, p Payment) error
	// Hint makes the payment of an order due at once, so that the provider is asked about its
	// charge or refund, unless its status says that nothing can be new. ErrNotFound.
	Hint(ctx context.Context, orderID string, refund bool) error
}

// Refunds is the part of the store that claims, retries and finishes refunds.
type Refunds interface {
	// Compensate applies decide to a payment, as Apply does, at most once per event key.
	Compensate(ctx context.Context, eventKey string, paymentID uuid.UUID, decide Decide) error
	// ClaimRefunds leases up to n due refunds.
	ClaimRefunds(ctx context.Context, n int, lease time.Duration) ([]Refund, error)
	// FinishRefund marks a refund as done and applies decide to its payment; it does nothing when
	// the refund was already done.
	FinishRefund(ctx context.Context, r Refund, decide Decide) error
	// RetryRefund sets the time of the next attempt while the lease holds.
	RetryRefund(ctx context.Context, r Refund, wait time.Duration, cause error) error
}

// Stores combines the interfaces by which the service reads and writes payments and refunds.
type Stores interface {
	Store
	Reader
	Sweeps
	Refunds
	EventBacklog
}

// Service prepares, charges, settles and refunds payments.
type Service struct {
	store    Stores
	tickets  Tickets
	provider Provider
	checkout Checkout
	log      *slog.Logger
	opts     Options
	gate     *Gate

	wake chan struct{}
	work sync.WaitGroup // charges that outlast their request
}

// New makes the service.
func New(store Stores, tickets Tickets, provider Provider, checkout Checkout, log *slog.Logger, opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Published == nil {
		opts.Published = func() {}
	}
	return &Service{
		store: store, tickets: tickets, provider: provider, checkout: checkout, log: log, opts: opts,
		gate: NewGate(store, tickets, opts.Now), wake: make(chan struct{}, 1),
	}
}

// forWrite returns a context for a write that must be made even if ctx has ended, as by a slow call
// before it.
func forWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// Wait returns when no charge is running, or when ctx ends. The sweeper of another process settles
// the charges that are then still running.
func (s *Service) Wait(ctx context.Context) error { return loop.Wait(ctx, &s.work) }

func (s *Service) wakeSweeper() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
