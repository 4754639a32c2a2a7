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
	// AwaitRefund waits until the provider may be sent another refund of a cause; nil: at once.
	AwaitRefund func(ctx context.Context, c Cause) error
	Observe     Observer
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
	// BeginRefund claims tickets for a refund. It is idempotent: the first answer is repeated.
	BeginRefund(ctx context.Context, p Payment, r Refund) (Claim, error)
	// AbortRefund gives up the claim of a refund. It is idempotent.
	AbortRefund(ctx context.Context, refundID uuid.UUID) error
}

// Claim is ticket's answer to BeginRefund.
type Claim struct {
	// Refused says that nothing was claimed, for the Reason.
	Refused bool
	Reason  string
	Items   []RefundItem
	// Left are the tickets that were not claimed.
	Left []Left
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
	// Refund gives money back, once per key while the provider keeps the key.
	Refund(ctx context.Context, c RefundCall) (RefundAnswer, error)
	// AskRefunds returns the refunds of an order, by one look-up.
	AskRefunds(ctx context.Context, orderID string) (RefundReport, error)
	// Caps returns what is known of the provider.
	Caps() Caps
}

// Caps are properties of a provider.
type Caps struct {
	// KeyLife is how long the provider certainly keeps the idempotency key of a refund.
	KeyLife time.Duration
	// InFlight is how long a call may act after it was sent: our timeout and the provider's own.
	InFlight time.Duration
}

// RefundCall is one call that asks the provider for a refund.
type RefundCall struct {
	OrderID string
	// RefundID is our id, which the provider keeps with the refund.
	RefundID uuid.UUID
	Key      string
	Amount   int64
	// NotAfter is the time, by this process's clock, after which the call must not be sent any more:
	// the process may have been stopped, and another one have sent the refund.
	NotAfter time.Time
}

// ProviderState is what a provider says about a refund.
type ProviderState int

// The states. A call without any of them, as one that is still being processed, is an error.
const (
	ProviderAccepted ProviderState = iota + 1 // it will be made, or fail
	ProviderDone
	ProviderFailed  // it was accepted, and its money is the shop's again
	ProviderTooMuch // refused: more than is left of the charge
	ProviderRefused // refused for good
)

// RefundAnswer is the provider's answer to a RefundCall.
type RefundAnswer struct {
	State ProviderState
	// ID is the provider's id of the refund. Code is the provider's reason of a refusal.
	ID, Code string
}

// RefundReport is what the provider knows about an order.
type RefundReport struct {
	Captured int64
	Refunds  []ProviderRefund
}

// ProviderRefund is a refund at the provider.
type ProviderRefund struct {
	ID string
	// RefundID is our id; zero: a person made the refund there.
	RefundID uuid.UUID
	Amount   int64
	State    ProviderState // accepted, done or failed
}

// Left returns what the provider could still refund.
func (r RefundReport) Left() int64 {
	left := r.Captured
	for _, x := range r.Refunds {
		if x.State != ProviderFailed {
			left -= x.Amount
		}
	}
	return left
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
	// Show returns a payment with all about it, or ErrNotFound. It is for payers who look again and
	// again, and takes no connections of charges.
	Show(ctx context.Context, id uuid.UUID) (Shown, error)
	// OfReference returns the ids of the payments of a reference, oldest first.
	OfReference(ctx context.Context, ref Reference) ([]uuid.UUID, error)
	// OfOrder returns the id of the payment with a provider's order id, or ErrNotFound.
	OfOrder(ctx context.Context, orderID string) (uuid.UUID, error)
	// ListRefunds returns refunds in a status (empty: any) with smaller ids than before (zero: all),
	// newest first.
	ListRefunds(ctx context.Context, status RefundStatus, limit int, before uuid.UUID) ([]DueRefund, error)
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

// Refunds is the part of the store that keeps refunds.
type Refunds interface {
	// ApplyOnce applies decide to a payment, as Apply does, at most once per event key.
	ApplyOnce(ctx context.Context, eventKey string, paymentID uuid.UUID, decide Decide) error
	// AddRefund applies decide, which inserts r, to r's payment, and returns the payment's refund of
	// r's cause and request: r, or the one of an earlier request, for which decide is not called.
	AddRefund(ctx context.Context, r Refund, decide DecideRequest) (Refund, error)
	// ClaimRefunds leases up to n due refunds of a cause: those that need ticket, or those that need
	// the provider.
	ClaimRefunds(ctx context.Context, c Cause, atTicket bool, n int, lease time.Duration) ([]DueRefund, error)
	// ApplyRefund locks a refund and its payment, calls decide and writes the change. It returns the
	// refund after it, and whether anything was changed. ErrNotFound.
	ApplyRefund(ctx context.Context, id uuid.UUID, decide DecideRefund) (after Refund, changed bool, err error)
	// Adopt records the refunds of one look-up that were made by hand, all or none, and returns the
	// amount of those that were not known yet.
	Adopt(ctx context.Context, paymentID uuid.UUID, found ByHandRefunds) (adopted int64, err error)
	// PostponeRefund sets the time of the next attempt while the lease holds.
	PostponeRefund(ctx context.Context, r Refund, wait time.Duration, cause error) error
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

	wake map[RefundLane]chan struct{}
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
	if opts.AwaitRefund == nil {
		opts.AwaitRefund = func(context.Context, Cause) error { return nil }
	}
	wake := make(map[RefundLane]chan struct{}, len(refundLanes))
	for lane := range refundLanes {
		wake[lane] = make(chan struct{}, 1)
	}
	return &Service{
		store: store, tickets: tickets, provider: provider, checkout: checkout, log: log, opts: opts,
		gate: NewGate(store, tickets, opts.Now), wake: wake,
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

// wakeSweeper makes a lane of refunds look for work at once.
func (s *Service) wakeSweeper(lane RefundLane) {
	select {
	case s.wake[lane] <- struct{}{}:
	default:
	}
}
