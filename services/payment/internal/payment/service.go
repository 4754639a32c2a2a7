package payment

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/loop"
)

const (
	// firstPoll is the wait before the first look-up of an unknown charge, maxPoll the longest wait
	// before later ones.
	firstPoll = time.Second
	maxPoll   = 30 * time.Second
	// abortRetry is the wait before a failed release at ticket is first retried.
	abortRetry = 5 * time.Second
	// abandonAfter is the age from which a charge that the provider does not know counts as never
	// made, even if it cannot be voided.
	abandonAfter = 15 * time.Minute
	// leaseTime is the sweeper's lease on a payment or refund. It is well above the timeout of a
	// look-up; a charge takes a lease of its own.
	leaseTime = time.Minute
	// afterCharge is how long a claim must last after the longest charge, until its outcome is known.
	afterCharge = 2 * time.Minute
	// payWithin is how long a reference is claimed for a charge, and leastPage the shortest time that
	// a buyer has on a provider's page.
	payWithin = 10 * time.Minute
	leastPage = 3 * time.Minute
	// pageMargin is the longest time before the end of its claim at which an open payment expires.
	pageMargin = 30 * time.Second
	// ticketTimeout bounds the claim and the release of a reference during a confirmation, so that
	// a silent ticket service leaves the time that the charge needs.
	ticketTimeout = 3 * time.Second
	// writeTimeout is the timeout of a write that must be made even if the call before it was slow.
	writeTimeout = 5 * time.Second
	// answerMargin is the time before the request's deadline at which the answer is PENDING.
	answerMargin = 250 * time.Millisecond
)

// Options are the options of a Service.
type Options struct {
	// ChargesAtOnce bounds the charges of payments whose buyers are back from a page; default 16.
	ChargesAtOnce int
	// AwaitRefund waits until a refund of a cause may be sent to a provider; nil: no wait.
	AwaitRefund func(ctx context.Context, provider string, c Cause) error
	Observe     Observer
	// PayoutAfter is the time after which the seller of a ticket is paid.
	PayoutAfter time.Duration
	// Published is called after each commit that wrote events; nil: the relay finds them by
	// polling.
	Published func()
	// Now is set by tests only; nil: time.Now. The store has its own clock.
	Now func() time.Time
}

// Tickets is the client of the ticket service, which has the prices and the claims of references.
type Tickets interface {
	// Payable returns what a user has to pay for a reference, and until when.
	Payable(ctx context.Context, ref Reference, userID string) (Payable, error)
	// Begin claims the reference for a payment, so that nobody else gets it during the charge, and
	// returns the end of the claim. It is idempotent.
	Begin(ctx context.Context, p Payment, t PayTime) (until time.Time, err error)
	// Extend lengthens the claims of payments that ticket has not settled, and returns their ids.
	Extend(ctx context.Context, payments []Payment) ([]uuid.UUID, error)
	// Settlement returns what the replica that answers knows of the settlement of payments.
	Settlement(ctx context.Context) (Settlement, error)
	// Abort releases the reference. It is idempotent, and does nothing when the reference is not
	// claimed for this payment.
	Abort(ctx context.Context, p Payment) error
	// MembershipPayment returns the payment that has paid for a membership. Errors:
	// ErrMembershipNotFound, ErrNotRefundable.
	MembershipPayment(ctx context.Context, membershipID uuid.UUID) (uuid.UUID, error)
	// BeginRefund claims tickets, or a membership, for a refund. It is idempotent: the first answer is
	// repeated.
	BeginRefund(ctx context.Context, p Payment, r Refund) (Claim, error)
	// AbortRefund gives up the claim of a refund. It is idempotent.
	AbortRefund(ctx context.Context, refundID uuid.UUID) error
}

// PayTime is how long a payment needs its reference.
type PayTime struct {
	// Within is the wanted time from now on, AtLeast the shortest time that is accepted.
	Within, AtLeast time.Duration
	// Opens says that a page is to be opened. Otherwise a charge follows, and may extend a claim.
	Opens bool
}

// Settlement is what ticket knows of the settlement of payments.
type Settlement struct {
	// Oldest is the age of the oldest payment event that is not applied, MeasuredAgo the time since
	// it was measured.
	Oldest, MeasuredAgo time.Duration
	// MaxExtension is the longest time by which payments may extend a hold.
	MaxExtension time.Duration
}

// Claim is ticket's answer to BeginRefund.
type Claim struct {
	// Refused says that nothing was claimed, for the Reason.
	Refused bool
	Reason  string
	Items   []RefundItem
	// MembershipAmount is what a claimed membership gives back.
	MembershipAmount int64
	// Left are the tickets that were not claimed.
	Left []Left
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
	MustCharge bool // this request has to make the charge
	Before     Payment
	Replayed   *Answer // the first answer to a repeated key
}

// Reader reads payments.
type Reader interface {
	// Get returns a payment, or ErrNotFound.
	Get(ctx context.Context, id uuid.UUID) (Payment, error)
	// Show returns a payment with its timeline and refunds, or ErrNotFound. Payers poll it, so it uses
	// no connections of the pool for charges.
	Show(ctx context.Context, id uuid.UUID) (Shown, error)
	// OfReference returns the ids of the payments of a reference, oldest first.
	OfReference(ctx context.Context, ref Reference) ([]uuid.UUID, error)
	// OfOrder returns the id of the payment with a provider's order id, or ErrNotFound.
	OfOrder(ctx context.Context, orderID string) (uuid.UUID, error)
	// OrderOfCharge returns the order of a charge by the provider's id of the charge, or ErrNotFound.
	OrderOfCharge(ctx context.Context, provider, chargeID string) (string, error)
	// ListRefunds returns refunds in a status (empty: any) with smaller ids than before (zero: all),
	// newest first.
	ListRefunds(ctx context.Context, status RefundStatus, limit int, before uuid.UUID) ([]DueRefund, error)
}

// Lane is a kind of the sweeper's work. Each lane has its own workers, so that a dependency that
// does not answer delays only the work that needs it.
type Lane string

// The lanes of payments, by what their work needs. Refunds have lanes of their own.
const (
	Expiries Lane = "EXPIRIES" // unpaid payments whose time is over: the database only
	Releases Lane = "RELEASES" // references to give back to ticket
	Charges  Lane = "CHARGES"  // charges to look up at the provider, pages to close
	Pages    Lane = "PAGES"    // open payments whose buyers are back from the page, or have paid on it
)

// Sweeps is the part of the store that the sweeper uses to claim and reschedule due payments.
type Sweeps interface {
	// ClaimDue leases up to n due payments of a lane and returns them with the database's time.
	ClaimDue(ctx context.Context, lane Lane, n int, lease time.Duration) ([]Payment, time.Time, error)
	// Reschedule sets the time of the next check while the lease holds. Never also records that the
	// reference was released, that the page was closed and that a hint was followed up. An uncharged
	// payment still expires, and a payment that has ended without a charge is checked twice more.
	Reschedule(ctx context.Context, p Payment, wait time.Duration) error
	// Released records that the reference was released and makes the payment due at once in its
	// next lane, while the lease holds.
	Released(ctx context.Context, p Payment) error
	// Poll records that a hint was followed up, and sets the time of the next check of an open payment.
	Poll(ctx context.Context, p Payment, wait time.Duration) error
	// DueExtensions returns up to n payments whose claims must be extended, the next time in a minute.
	DueExtensions(ctx context.Context, n int) ([]Payment, error)
	// SettledAtTicket records that ticket has settled payments.
	SettledAtTicket(ctx context.Context, ids []uuid.UUID) error
	// Hint makes the payment of an order due, so that the provider is asked about its charge or
	// refund: at once, or 5 s after the last hint. It does nothing if the payment's status says that
	// nothing can be new, or if it is due or about to be charged already. Errors: ErrNotFound.
	Hint(ctx context.Context, orderID string, refund bool) error
}

// Refunds is the part of the store that keeps refunds.
type Refunds interface {
	// ApplyOnce applies decide to a payment, as Apply does, at most once per event key.
	ApplyOnce(ctx context.Context, eventKey string, paymentID uuid.UUID, decide Decide) error
	// AddRefund applies decide, which inserts r, to r's payment, and returns the stored refund of r's
	// payment, cause and request. If an earlier request has stored one, decide is not called.
	AddRefund(ctx context.Context, r Refund, decide DecideRequest) (Refund, error)
	// ClaimRefunds leases up to n due refunds of a cause: those that wait for ticket (atTicket), or
	// those that wait for the provider.
	ClaimRefunds(ctx context.Context, c Cause, atTicket bool, n int, lease time.Duration) ([]DueRefund, error)
	// ApplyRefund locks a refund and its payment, calls decide and writes the change. It returns the
	// refund after the change, and whether there was one. Errors: ErrNotFound.
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
	store     Stores
	tickets   Tickets
	providers Providers
	log       *slog.Logger
	opts      Options
	gate      *Gate

	wake map[RefundLane]chan struct{}
	back chan struct{}  // wakes the lane Pages
	work sync.WaitGroup // charges that outlast their request
}

// New makes the service.
func New(store Stores, tickets Tickets, providers Providers, log *slog.Logger, opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.ChargesAtOnce = cmp.Or(opts.ChargesAtOnce, sweepers)
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.AwaitRefund == nil {
		opts.AwaitRefund = func(context.Context, string, Cause) error { return nil }
	}
	wake := make(map[RefundLane]chan struct{}, len(refundLanes))
	for lane := range refundLanes {
		wake[lane] = make(chan struct{}, 1)
	}
	return &Service{
		store: store, tickets: tickets, providers: providers, log: log, opts: opts,
		gate: NewGate(store, tickets, opts.Now), wake: wake, back: make(chan struct{}, 1),
	}
}

// provider returns a payment's provider, which is configured: the sweeper claims no other payment.
func (s *Service) provider(p Payment) Provider { return s.providers.ByName[p.Provider] }

// caps returns the capabilities of a payment's provider; zero values if it is not configured here.
func (s *Service) caps(p Payment) Capabilities {
	if provider, ok := s.providers.Of(p.Provider); ok {
		return provider.Capabilities()
	}
	return Capabilities{}
}

// forWrite returns a context for a write that must be made even if ctx has ended, for example
// during a slow call before it.
func forWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// Wait returns when no charge is running, or when ctx ends. The sweeper of another process settles
// the charges that are then still running.
func (s *Service) Wait(ctx context.Context) error { return loop.Wait(ctx, &s.work) }

// wakeSweeper makes a lane of refunds look for work at once.
func (s *Service) wakeSweeper(lane RefundLane) { signal(s.wake[lane]) }

// signal wakes the goroutine that waits for c, or the next one that will. It does not block.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
