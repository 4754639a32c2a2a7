package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Provider is a payment provider. Money is taken only by a Charge of this service, never by a page,
// an authorisation or a webhook alone. After an error of Charge the outcome is unknown, except for
// ErrNotSent and ErrNotAdmitted.
type Provider interface {
	Lister

	// Capabilities returns what the provider can do, and its time limits.
	Capabilities() Capabilities
	// Open opens the page to pay on, once per payment. After a *NotTakenError, and after ErrKeySpent, it
	// never can be opened.
	Open(ctx context.Context, p Payment) (Page, error)
	// Return decodes the parameters with which the buyer comes back from the page.
	Return(params map[string]string) (Auth, error)
	// Charge takes the money, once per order, with the payment's PaymentKey or Ref. seen is what Ask has
	// returned just before, which may save a look-up; zero: it was not asked.
	Charge(ctx context.Context, p Payment, seen Outcome) (Outcome, error)
	// Ask looks up the outcome of a payment by its Ref or order. It returns ErrOtherCharge if the
	// charge that it finds is for another order or in another currency.
	Ask(ctx context.Context, p Payment) (Outcome, error)
	// Cancel makes a later charge impossible, and never refunds. The outcome is Void, Captured (the
	// order was already charged) or NotPossible.
	Cancel(ctx context.Context, p Payment) (Outcome, error)
	// Refund gives money back, once per key while the provider keeps the key. It returns a KeptError if
	// the provider answers an error that it repeats for every later call with that key.
	Refund(ctx context.Context, c RefundCall) (RefundAnswer, error)
	// AskRefunds returns the refunds of a payment.
	AskRefunds(ctx context.Context, p Payment) (RefundReport, error)
	// ParseWebhook verifies and decodes a webhook. If its signature is wrong: ErrWebhookSignature.
	ParseWebhook(headers map[string]string, body []byte, now time.Time) (Notice, error)
}

// ErrKeyRefused is returned by each call of a Provider that does not accept the secret key. The call
// has changed nothing.
var ErrKeyRefused = fmt.Errorf("%w: the provider does not accept the secret key", ErrNotAdmitted)

// NotTakenError is a provider's final answer to Open: it will never take this payment, for example
// because the amount is too small.
type NotTakenError struct {
	// Code is the provider's reason, in its words.
	Code string
	Err  error
}

func (e *NotTakenError) Error() string {
	return "the provider does not take the payment: " + e.Err.Error()
}

func (e *NotTakenError) Unwrap() error { return e.Err }

// Capabilities are what a provider can do, and its time limits.
type Capabilities struct {
	// Void says that Cancel can make a later charge impossible.
	Void bool
	// PageTime is the time that the buyer has on the provider's page; 0: the provider has no page, and
	// a page of the shop collects the key.
	PageTime time.Duration
	// NoKeys says that the page returns no key: a charge contains the page's id (Page.Ref) instead.
	NoKeys bool
	// Finality is the age from which a charge that the provider does not know is given up. Since the
	// first charge: it is voided. If it cannot be voided, since the latest: it counts as never made.
	Finality time.Duration
	// ChargeTime is the timeout of a charge, CallTime of other calls, ListTime of List (0: CallTime).
	ChargeTime, CallTime, ListTime time.Duration
	// KeyLife is how long the provider certainly keeps the idempotency key of a refund.
	KeyLife time.Duration
	// Currencies are the currencies that the provider takes, with their limits; nil: any amount of each.
	Currencies map[string]Limits
	// InFlight is how long after its start a call may still take effect: both sides' timeouts.
	InFlight time.Duration
}

// claimTime is the time limit of a charge, until its outcome is written. The process that charges
// has the payment's lease for that time.
func (c Capabilities) claimTime() time.Duration { return c.ChargeTime + 10*time.Second }

// pageMargin is how long before the end of its claim an open payment expires.
func (c Capabilities) pageMargin() time.Duration { return min(pageMargin, c.PageTime/4) }

// extension is the time by which the ticket service must be able to extend a hold: the buyer may
// pay at the end of the page's time, and then a charge without an answer must still be resolved.
func (c Capabilities) extension() time.Duration {
	return c.PageTime + c.Finality + 2*c.ChargeTime + afterCharge
}

// Mode says whether the keys of the providers move money.
type Mode string

// The modes. All providers of a process have the same one.
const (
	TestMode Mode = "test"
	LiveMode Mode = "live"
)

// Providers are the configured providers. A payment stays with the provider that it was made for.
type Providers struct {
	// Default is the name of the provider for new payments.
	Default string
	ByName  map[string]Provider
	// Mode is that of all keys; default: TestMode.
	Mode Mode
	// Returns decode, by provider name, what buyers bring back from pages of providers that are not
	// configured here: other replicas may have them, or the configuration may have changed.
	Returns map[string]func(params map[string]string) (Auth, error)
}

// Of returns a payment's provider; false when it is not configured here.
func (p Providers) Of(name string) (Provider, bool) {
	found, ok := p.ByName[name]
	return found, ok
}

// mode returns the mode of all keys.
func (p Providers) mode() Mode { return cmp.Or(p.Mode, TestMode) }

// For returns a payment's provider; false when it is not configured here, or its present key has
// another mode than the payment, and so does not know it.
func (p Providers) For(pay Payment) (Provider, bool) {
	found, ok := p.Of(pay.Provider)
	return found, ok && pay.Mode == p.mode()
}

// auth decodes what a buyer brings back from a page. Errors: ErrProviderUnknown, ErrNotFound.
func (p Providers) auth(name string, params map[string]string) (Auth, error) {
	decode := p.Returns[name]
	if configured, ok := p.Of(name); ok {
		decode = configured.Return
	}
	if decode == nil {
		return Auth{}, ErrProviderUnknown
	}
	auth, err := decode(params)
	if err == nil && !(IsOrderID(auth.OrderID) && isPlain(auth.Key) && isPlain(auth.DeclineCode)) {
		err = errMalformed
	}
	if err != nil {
		err = errors.Join(ErrNotFound, err)
	}
	return auth, err
}

// errMalformed is returned for parameters that no page has sent.
var errMalformed = errors.New("a parameter is malformed")

// isPlain reports whether s has only visible ASCII characters, as every provider's keys and codes.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Names returns the names of the providers, the default one first.
func (p Providers) Names() []string {
	names := []string{p.Default}
	for name := range p.ByName {
		if name != p.Default {
			names = append(names, name)
		}
	}
	slices.Sort(names[1:])
	return names
}

// Rows returns the names of the providers whose payments this process may work on.
func (p Providers) Rows() []string { return append(p.Names(), NoProvider) }

// Page is where the buyer pays: the address of the provider's page, or the parameters of ours.
type Page struct {
	URL    string
	Params map[string]string
	// Ref is the provider's id of the page, for asking about it and closing it. It is empty if the
	// provider learns of the payment only by the charge.
	Ref string
}

// Auth is the data with which the buyer comes back from the page.
type Auth struct {
	OrderID string
	// Token is the payment's token, which the page was opened with.
	Token string
	// Key is the key to charge with; empty: the provider must be asked.
	Key string
	// Amount is what was paid on the page, which must equal the payment's; 0: not known.
	Amount int64
	// DeclineCode says why the payment was declined on the page; empty: it was not, as far as is known.
	DeclineCode string
}

// RefundCall is one call that asks the provider for a refund.
type RefundCall struct {
	OrderID string
	// Currency is the payment's.
	Currency string
	// PaymentKey is the key that the order was charged with, ChargeID the provider's id of the charge.
	PaymentKey, ChargeID string
	// RefundID is this service's id, which the provider keeps with the refund.
	RefundID uuid.UUID
	Key      string
	Amount   int64
	// NotAfter is the time, by this process's clock, after which the call must not be sent any more:
	// this process may have been suspended, and another one may have sent the refund meanwhile.
	NotAfter time.Time
}

// ProviderState is what a provider says about a refund.
type ProviderState int

// The states of a refund. For any other result, such as "in progress", the call fails.
const (
	ProviderAccepted ProviderState = iota + 1 // the refund will be made, or will fail
	ProviderDone
	ProviderFailed  // accepted, then failed: the shop has the money again
	ProviderTooMuch // refused: more than can still be refunded
	ProviderRefused // refused for good
)

// RefundAnswer is the provider's answer to a RefundCall.
type RefundAnswer struct {
	State ProviderState
	// ID is the provider's id of the refund. Code is the provider's reason of a refusal, PendingReason
	// that of a refund which it has accepted and not made yet.
	ID, Code, PendingReason string
}

// RefundReport is what the provider knows about an order.
type RefundReport struct {
	Captured int64
	// Refunds without RefundID were made by a person, or by the bank after a lost dispute.
	Refunds []ProviderRefund
	// Disputed says that the payer disputes the charge at the bank, and the dispute is undecided.
	Disputed bool
	// EvidenceDue is until when the provider takes evidence about open disputes, the earliest of these
	// times; zero: it waits for none.
	EvidenceDue time.Time

	// waits is why a failed refund by hand could not be recorded yet; nil: nothing waits.
	waits error
}

// ProviderRefund is a refund at the provider.
type ProviderRefund struct {
	ID string
	// RefundID is this service's id; zero: it did not ask for the refund.
	RefundID uuid.UUID
	Amount   int64
	State    ProviderState // accepted, done or failed
	// PendingReason is why an accepted refund is not made yet; empty: the provider does not say.
	PendingReason string
	// Lost says that the bank took this amount after a lost dispute; if it failed, the bank has given it
	// back, or never took it.
	Lost bool
}

// lostDispute reports whether the bank took money after a lost dispute.
func (r RefundReport) lostDispute() bool {
	return slices.ContainsFunc(r.Refunds, func(x ProviderRefund) bool { return x.Lost && x.State != ProviderFailed })
}

// movesByHand reports whether a refund by hand is accepted, but not made yet.
func (r RefundReport) movesByHand() bool {
	return slices.ContainsFunc(r.Refunds, func(x ProviderRefund) bool { return x.RefundID == uuid.Nil && x.State == ProviderAccepted })
}

// RefundableAmount returns the amount that the provider could still refund.
func (r RefundReport) RefundableAmount() int64 {
	left := r.Captured
	for _, x := range r.Refunds {
		if x.State != ProviderFailed {
			left -= x.Amount
		}
	}
	return left
}

// Notice is the content of a webhook.
type Notice struct {
	// OrderID and ChargeID are empty for a webhook that can be ignored. ChargeID is set only if the
	// webhook contains no order.
	OrderID, ChargeID string
	Refund            bool // it is about a refund or a dispute, not about a charge
	Unsigned          bool // anybody can send it
	// FraudType is the kind of fraud for which the card's issuer takes the charge; empty: it is about
	// something else.
	FraudType string
}

// State is the state of a charge at the provider.
type State int

// The states of a charge.
const (
	Absent State = iota // the provider does not know the order
	Captured
	Refused
	Pending
	Void        // the order can never be charged
	Waiting     // the buyer has not paid on the page yet
	Authorized  // the buyer has paid, and the charge may be sent
	NotPossible // it cannot be cancelled
)

// Outcome is the provider's answer about a charge.
type Outcome struct {
	State    State
	ChargeID string
	// DeclineCode is why an attempt was declined. After one on the page the buyer may try again there.
	DeclineCode string
	// Key is the key with which an authorised payment is charged, Authorization the provider's id of what
	// the buyer has authorised. Not every provider has both.
	Key, Authorization string
	// Amount is the captured amount, Refunded the part of it that was refunded since.
	Amount, Refunded int64
	// WholeOnly says that only the whole of a captured amount can be refunded.
	WholeOnly bool
	// ReceiptURL is the address of the buyer's receipt (see ReceiptAt); empty: the provider has named none.
	ReceiptURL string
}
