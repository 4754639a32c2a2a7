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
	"urr.guru/pkg/telemetry"
)

const (
	// firstPoll is the wait before the provider is first asked about a charge whose outcome is
	// unknown. maxPoll is the longest wait before later look-ups.
	firstPoll = time.Second
	maxPoll   = 30 * time.Second
	// abortRetry is the wait before a failed release of a reference is first retried.
	abortRetry = 5 * time.Second
	// abandonAfter is the age from which a charge that the provider does not know counts as never
	// made, even if it cannot be voided.
	abandonAfter = 15 * time.Minute
	// leaseTime is how long the sweeper has the lease on a payment or refund: well above the timeout
	// of a look-up. The lease for a charge lasts as long as Capabilities.claimTime.
	leaseTime = time.Minute
	// afterCharge is how long a claim must still last after a charge that took the longest time.
	afterCharge = 2 * time.Minute
	// payWithin is how long a reference is claimed for a charge. leastPage is the shortest time that a
	// buyer has on a provider's page.
	payWithin = 10 * time.Minute
	leastPage = 3 * time.Minute
	// pageMargin is the longest time between the end of an open payment and the end of its claim.
	pageMargin = 30 * time.Second
	// ticketTimeout is the time limit of a call to the ticket service. In a confirmation it leaves
	// time for the charge, even if the ticket service does not answer.
	ticketTimeout = 3 * time.Second
	// writeTimeout is the time limit of a write that must be made even if its request has ended.
	writeTimeout = 5 * time.Second
	// answerMargin is how long before its deadline a request for a confirmation is answered.
	answerMargin = 250 * time.Millisecond
)

// Options are the options of a Service.
type Options struct {
	// PagesAtOnce is how many payments whose buyers are back from a page are worked on at the same time;
	// default 16.
	PagesAtOnce int
	// EndpointRate returns how many look-ups per second a provider takes; 0, or nil: there is no limit.
	EndpointRate func(provider string) float64
	// AwaitRefund waits until a refund may be sent to the provider, and returns the context to send it
	// with; nil: no wait.
	AwaitRefund func(ctx context.Context, provider string) (context.Context, error)
	Observe     Observer
	// PayoutAfter is the time from a ticket's transfer until its seller is paid.
	PayoutAfter time.Duration
	// Published is called after commits, to have their events published at once; nil: by polling.
	Published func()
	// Now is set by tests only; nil: time.Now. The store has a clock of its own.
	Now func() time.Time
}

// Tickets is the client of the ticket service, which has the prices and the claims of references.
type Tickets interface {
	// Payable returns what a user has to pay for a reference, and until when.
	Payable(ctx context.Context, ref Reference, userID string) (Payable, error)
	// Begin claims the reference for a payment, so that nobody else gets it during the charge, and
	// returns the end of the claim. It is idempotent.
	Begin(ctx context.Context, p Payment, t PayTime) (until time.Time, err error)
	// Extend prolongs claims, and returns the ids of the payments that still need theirs.
	Extend(ctx context.Context, payments []Payment) ([]uuid.UUID, error)
	// Settlement returns how far the ticket service has applied the payment events.
	Settlement(ctx context.Context) (Settlement, error)
	// Abort releases the reference. It is idempotent, and does nothing when the reference is not
	// claimed for this payment.
	Abort(ctx context.Context, p Payment) error
	// Settled returns what became of payments; those that the ticket service has not settled are left out.
	Settled(ctx context.Context, ids ...uuid.UUID) ([]Settled, error)
	// MembershipPayment returns the id of the payment with which a membership was bought. Errors:
	// ErrMembershipNotFound, ErrNotRefundable.
	MembershipPayment(ctx context.Context, membershipID uuid.UUID) (uuid.UUID, error)
	// BeginRefund claims tickets, or a membership, for a refund. It is idempotent: a repeated call
	// gets the first answer.
	BeginRefund(ctx context.Context, p Payment, r Refund) (Claim, error)
	// AbortRefund releases the claim of a refund. It is idempotent.
	AbortRefund(ctx context.Context, refundID uuid.UUID) error
}

// PayTime is how long a payment needs the claim of its reference.
type PayTime struct {
	// Within is the wanted time from now, AtLeast the shortest time that is sufficient.
	Within, AtLeast time.Duration
	// Opens is true before a page is opened, and false before a charge, which may extend a claim.
	Opens bool
}

// Settlement is how far one replica of the ticket service has applied the payment events.
type Settlement struct {
	// Oldest is the age of the oldest payment event that is not applied, MeasuredAgo the time since
	// that was measured.
	Oldest, MeasuredAgo time.Duration
	// MaxExtension is the longest time by which payments may extend a hold.
	MaxExtension time.Duration
}

// Claim is the ticket service's answer to BeginRefund.
type Claim struct {
	// Refused says that nothing was claimed; Reason says why.
	Refused bool
	Reason  string
	Items   []RefundItem
	// MembershipAmount is the amount to give back for a claimed membership.
	MembershipAmount int64
	// PresentAmount is what the claim would have given back, if it was refused with ErrAmountChanged.
	PresentAmount int64
	// Excluded are the tickets that were not claimed.
	Excluded []ExcludedTicket
}

// Store keeps payments; every method is one transaction.
type Store interface {
	// Open returns the open payment of n's reference, or stores and returns n. With a repeated key it
	// returns the payment of the first request. Errors: ErrAlreadyPaid, ErrTooManyPages.
	Open(ctx context.Context, n Payment, key *idempotency.Key) (Payment, error)
	// Replay returns the payment that a request with this key has opened, nil when there is none.
	Replay(ctx context.Context, key *idempotency.Key) (*Payment, error)
	// Begin applies decide to an order's payment, as Apply does, and claims the Idempotency-Key.
	Begin(ctx context.Context, orderID string, key *idempotency.Key, decide Decide) (Begun, error)
	// Apply locks a payment, calls decide, writes the change and returns the payment after it.
	Apply(ctx context.Context, id uuid.UUID, decide Decide) (Payment, error)
}

// Begun is the result of Store.Begin.
type Begun struct {
	Payment    Payment
	MustCharge bool    // whether this request has to make the charge
	Before     Payment // the payment before decide
	Replayed   *Answer // for a repeated key: its first answer
}

// Reader reads payments.
type Reader interface {
	// Get returns a payment, or ErrNotFound.
	Get(ctx context.Context, id uuid.UUID) (Payment, error)
	// Show returns a payment with its timeline and refunds, or ErrNotFound. Payers poll it, so it uses
	// no connections of the pool for charges.
	Show(ctx context.Context, id uuid.UUID) (View, error)
	// AheadOf returns how many payments the provider is asked about before an Awaited one.
	AheadOf(ctx context.Context, id uuid.UUID) (int, error)
	// PaymentIDsByReference returns the ids of the payments of a reference, oldest first.
	PaymentIDsByReference(ctx context.Context, ref Reference) ([]uuid.UUID, error)
	// PaymentIDByOrderID returns the id of the payment with a provider's order id, or ErrNotFound.
	PaymentIDByOrderID(ctx context.Context, orderID string) (uuid.UUID, error)
	// OrderOfCharge returns the order of a charge by the provider's id of the charge, or ErrNotFound.
	OrderOfCharge(ctx context.Context, provider, chargeID string) (string, error)
	// ListRefunds returns refunds in a status (empty: any) with smaller ids than before (zero: all),
	// newest first.
	ListRefunds(ctx context.Context, status RefundStatus, limit int, before uuid.UUID) ([]DueRefund, error)
	// ListDisputes returns payments as Service.ListDisputes does, with smaller ids than before.
	ListDisputes(ctx context.Context, warned bool, limit int, before uuid.UUID) ([]Payment, error)
}

// Lane is a kind of the sweeper's work. Each lane has its own workers, so that a service that does
// not answer delays only the work that needs it.
type Lane string

// The lanes of payments. Refunds have lanes of their own (RefundLane).
const (
	Expiries Lane = "EXPIRIES" // unpaid payments whose time is over: the database only
	Releases Lane = "RELEASES" // references to release at the ticket service
	Charges  Lane = "CHARGES"  // charges to ask the provider about, and refused authorisations to cancel
	Pages    Lane = "PAGES"    // open payments whose buyers are back from the page, or have paid on it
	Looks    Lane = "LOOKS"    // looks that nobody waits for: at pages, to close them, and at ended payments
)

// Sweeps is the part of the store that the sweeper uses to claim and reschedule due payments.
type Sweeps interface {
	// ClaimDue leases up to n due payments of a lane and returns them with the database's time.
	ClaimDue(ctx context.Context, lane Lane, n int, lease time.Duration) ([]Payment, time.Time, error)
	// Reschedule sets the time of the next check, if p has the latest lease. Never also records that
	// the reference was released, the page closed and the provider asked after a hint. A payment that
	// is not charged yet still expires, and one that ended without a charge is checked twice more.
	Reschedule(ctx context.Context, p Payment, wait time.Duration) error
	// Released records that the reference was released and makes the payment due at once for its next
	// step, if p has the latest lease.
	Released(ctx context.Context, p Payment) error
	// Poll records that the provider was asked, and sets the next check of an open payment.
	Poll(ctx context.Context, p Payment, wait time.Duration) error
	// DueExtensions returns up to n payments whose claims to prolong, each again after a minute.
	DueExtensions(ctx context.Context, n int) ([]Payment, error)
	// SettledAtTicket records that the ticket service has applied the payments' events.
	SettledAtTicket(ctx context.Context, ids []uuid.UUID) error
	// HintReturn is Hint about the buyer of an open page, whose look-up goes before those of webhooks.
	HintReturn(ctx context.Context, orderID string) error
	// Hint records that a webhook, or the buyer, came, and makes the payment of an order due: at once,
	// or 5 s after the last hint. The sweeper then asks about its charge or refund. Hint does nothing
	// if the payment's status says that nothing can be new, or if it is due or about to be charged
	// already. Errors: ErrNotFound.
	Hint(ctx context.Context, orderID string, refund bool) error
	// Warn records that the card's issuer takes the charge of an order for fraud; the first warning
	// stays. Errors: ErrNotFound.
	Warn(ctx context.Context, orderID, fraudType string) error
	// HintUnsigned is Hint after a webhook of this provider that anybody can send. It does nothing if the
	// payment has ended without a charge, or was refunded; for a confirmed one it counts once in 10 min.
	HintUnsigned(ctx context.Context, provider, orderID string, refund bool) error
}

// Refunds is the part of the store that keeps refunds.
type Refunds interface {
	// ApplyOnce applies decide to a payment, as Apply does, at most once per event key. The decision
	// gets the refunds that hold, and no times of requests.
	ApplyOnce(ctx context.Context, eventKey string, paymentID uuid.UUID, decide DecideRequest) error
	// AddRefund applies decide, which inserts r, to r's payment, and returns the payment and the stored
	// refund of r's payment, cause and request. If an earlier request has stored one, decide is not called.
	AddRefund(ctx context.Context, r Refund, decide DecideRequest) (Payment, Refund, error)
	// ClaimRefunds leases up to n due refunds of a cause: with atTicket those that the ticket service
	// handles next, otherwise those that the provider handles next.
	ClaimRefunds(ctx context.Context, c Cause, atTicket bool, n int, lease time.Duration) ([]DueRefund, error)
	// ApplyRefund locks a refund and its payment, calls decide and writes the change. It returns the
	// refund after the change, and whether there was one. Errors: ErrNotFound.
	ApplyRefund(ctx context.Context, id uuid.UUID, decide DecideRefund) (after Refund, changed bool, err error)
	// Adopt records refunds that were made by hand, all or none, and returns the total amount of those
	// that were not recorded yet.
	Adopt(ctx context.Context, paymentID uuid.UUID, found ByHandRefunds) (adopted int64, err error)
	// FailByHand applies decide to the refunds of a payment after one that was made by hand has failed,
	// and returns the changes.
	FailByHand(ctx context.Context, paymentID uuid.UUID, decide DecideByHandFailure) ([]RefundChange, error)
	// PostponeRefund sets the time of the next attempt, if r has the latest lease.
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

// Service prepares, charges and refunds payments, and finds out unknown outcomes.
type Service struct {
	store     Stores
	tickets   Tickets
	providers Providers
	log       *slog.Logger
	lines     *telemetry.LogLimit // of webhooks about unknown orders
	opts      Options
	gate      *Gate

	wake map[RefundLane]chan struct{}
	back chan struct{}  // wakes the lane Pages when a buyer is back
	work sync.WaitGroup // charges in progress
}

// New makes the service.
func New(store Stores, tickets Tickets, providers Providers, log *slog.Logger, opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.PagesAtOnce = cmp.Or(opts.PagesAtOnce, sweepers)
	if opts.EndpointRate == nil {
		opts.EndpointRate = func(string) float64 { return 0 }
	}
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.AwaitRefund == nil {
		opts.AwaitRefund = func(ctx context.Context, _ string) (context.Context, error) { return ctx, nil }
	}
	wake := make(map[RefundLane]chan struct{}, len(refundLanes))
	for lane := range refundLanes {
		wake[lane] = make(chan struct{}, 1)
	}
	return &Service{
		store: store, tickets: tickets, providers: providers, log: log, lines: telemetry.NewLogLimit(), opts: opts,
		gate: NewGate(store, tickets, opts.Now), wake: wake, back: make(chan struct{}, 1),
	}
}

// provider returns a payment's provider. It is configured: the sweeper claims no other payments.
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

// Wait returns when no charge is running, or when ctx ends. Charges that still run then are
// completed by the sweeper of another process.
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
