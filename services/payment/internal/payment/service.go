package payment

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
)

// Times that are not configured.
const (
	// firstLook is when the provider is asked about an unknown charge for the first time; later
	// looks are up to maxLook apart.
	firstLook = time.Second
	maxLook   = 30 * time.Second
	// abortRetry is when ticket is told again that nothing was paid.
	abortRetry = 5 * time.Second
	// giveUp is the age past which a charge that the provider does not know never happened, even if
	// it cannot be voided.
	giveUp = 15 * time.Minute
	// leaseTime is for how long a sweeper has a payment or refund for itself, well above the
	// provider's time-out.
	leaseTime = time.Minute
	// answerMargin is what is left of a request's time when it is answered PENDING.
	answerMargin = 250 * time.Millisecond
)

// Options of the service.
type Options struct {
	// Provider is the name of the only provider.
	Provider string
	// ProviderTimeout bounds one call to the provider.
	ProviderTimeout time.Duration
	// VoidAfter is how long a charge that the provider does not know may still arrive before it is
	// voided.
	VoidAfter time.Duration
	// Observe counts what operators are to see; the zero value counts nothing.
	Observe Observer
	// Published tells the outbox's relay that events were committed; nil tells nobody.
	Published func()
	// Now is set by tests only; nil is time.Now. What the store dates is dated by the store's
	// clock.
	Now func() time.Time
}

// Tickets is the service that owns what is paid.
type Tickets interface {
	// Payable says what a user has to pay for a reference.
	Payable(ctx context.Context, ref Reference, userID string) (Payable, error)
	// Begin claims the reference for a payment, so that nobody else gets it while it is charged;
	// repeatable.
	Begin(ctx context.Context, p Payment) error
	// Unsettled is the age of the oldest payment event that ticket has not applied, and how long
	// ago the replica that answers measured it. ErrNotTold: of a release of ticket that does not
	// know it.
	Unsettled(ctx context.Context) (oldest, measuredAgo time.Duration, err error)
	// Abort gives it up again; repeatable, and nothing when the reference was not claimed for this
	// payment.
	Abort(ctx context.Context, p Payment) error
}

// Provider charges cards. An error means that nothing is known, but for ErrNotSent.
type Provider interface {
	// Charge asks for the money, once per order.
	Charge(ctx context.Context, p Payment) (Outcome, error)
	// Lookup says what became of an order.
	Lookup(ctx context.Context, orderID string) (Outcome, error)
	// Void makes any later arrival of the charge impossible. The outcome is Void, or Captured when
	// it is too late.
	Void(ctx context.Context, orderID string) (Outcome, error)
	// Refund gives money back, once per r.ID, and returns the provider's own number;
	// ErrRefundRefused when the provider said no.
	Refund(ctx context.Context, r Refund) (string, error)
}

// Checkout is what a provider's page and its calls need.
type Checkout interface {
	// ClientParams are handed to the page that collects the payment key.
	ClientParams(p Payment) map[string]string
	// Webhook checks a provider's call; ErrWebhookSignature.
	Webhook(headers map[string]string, body []byte, now time.Time) (Notice, error)
}

// Notice is what a provider's call speaks of.
type Notice struct {
	// OrderID is empty for a call that is of no interest.
	OrderID string
	// Refund: of a refund, not of a charge.
	Refund bool
}

// State of a charge at the provider.
type State int

// The states.
const (
	// Absent: the provider does not know the order.
	Absent State = iota
	Captured
	Refused
	Pending
	// Void: the order can never be charged any more.
	Void
)

// Outcome is what a provider says about a charge.
type Outcome struct {
	State       State
	ChargeID    string
	DeclineCode string
	// Amount that was captured, and what of it was given back since.
	Amount, Refunded int64
}

// Store keeps payments; every method is one transaction.
type Store interface {
	// Open returns the open payment of the reference, a new one if there is none. A repeated key
	// gives the payment that it gave before.
	Open(ctx context.Context, n Payment, key *idempotency.Key) (Payment, error)
	// Replay returns the payment that a key has opened, nil when it has opened none.
	Replay(ctx context.Context, key *idempotency.Key) (*Payment, error)
	// Begin is Apply for a confirmation.
	Begin(ctx context.Context, orderID string, key *idempotency.Key, decide Decide) (Begun, error)
	// Apply locks a payment, lets decide look at it, and writes the change; it returns the payment
	// as it then is.
	Apply(ctx context.Context, id uuid.UUID, decide Decide) (Payment, error)
}

// Begun is how a confirmation starts.
type Begun struct {
	Payment Payment
	// Mine: this request has to charge.
	Mine bool
	// Replayed is the first answer to a repeated key.
	Replayed *Answer
}

// Reader reads payments.
type Reader interface {
	// Get returns a payment with its timeline; ErrNotFound.
	Get(ctx context.Context, id uuid.UUID) (Payment, []Entry, error)
	// Order finds a payment by its order; ErrNotFound.
	Order(ctx context.Context, orderID string) (Payment, error)
}

// Lane of the sweeper. Each has its own workers, so that whoever does not answer holds up only what
// it is asked for.
type Lane string

// The lanes of payments; refunds have one too.
const (
	// Expiries need the database only.
	Expiries Lane = "EXPIRIES"
	// Releases need ticket.
	Releases Lane = "RELEASES"
	// Charges need the provider.
	Charges Lane = "CHARGES"
)

// Sweeps is the store as the sweeper sees it.
type Sweeps interface {
	// ClaimDue takes up to n payments of a lane that are due, under new leases, and returns the
	// database's time with them.
	ClaimDue(ctx context.Context, lane Lane, n int, lease time.Duration) ([]Payment, time.Time, error)
	// Reschedule sets the next look at a payment, while its lease holds; Never also notes that its
	// reference has been released.
	Reschedule(ctx context.Context, p Payment, wait time.Duration) error
	// Released notes that the reference has been released, and makes the payment due in its next
	// lane at once; while its lease holds.
	Released(ctx context.Context, p Payment) error
	// Hurry makes a payment due at once, unless it is only prepared.
	Hurry(ctx context.Context, id uuid.UUID) error
}

// Refunds is the store of refunds.
type Refunds interface {
	// Compensate is Apply, once per event key.
	Compensate(ctx context.Context, eventKey string, paymentID uuid.UUID, decide Decide) error
	// ClaimRefunds takes up to n refunds that are due, under new leases.
	ClaimRefunds(ctx context.Context, n int, lease time.Duration) ([]Refund, error)
	// FinishRefund marks a refund as done and applies decide to its payment; nothing when it was
	// done already.
	FinishRefund(ctx context.Context, r Refund, decide Decide) error
	// RetryRefund sets the next attempt, while the lease holds.
	RetryRefund(ctx context.Context, r Refund, wait time.Duration, cause error) error
}

// Stores are the views of payments that the service needs.
type Stores interface {
	Store
	Reader
	Sweeps
	Refunds
	Unpublished
}

// Service is what the platform asks of payments.
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

// Wait returns when no charge is under way any more, or when ctx ends: the sweeper of the next
// process then settles it.
func (s *Service) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Service) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
