package payment

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
)

// The names of the calls that require an Idempotency-Key.
const (
	routePrepare = "prepare"
	routeConfirm = "confirm"
)

// PagesPerHour is how many pages of providers a user may open in PagesTime. Each takes calls of the
// account's limits.
const (
	PagesPerHour = 10
	PagesTime    = time.Hour
)

// NoProvider is the provider of payments of amount 0, whatever is configured. Such a payment is
// confirmed without a charge, and its refunds move no money. A client that could name it for
// anything with a price would get that for nothing, so three places refuse it independently: the
// rules of the request, this package (choose, free), and a CHECK of the table payments.
const NoProvider = "none"

// PrepareRequest asks to open a payment for a reference.
type PrepareRequest struct {
	Reference Reference
	UserID    string
	// Email is the user's verified e-mail address; empty: it is not known.
	Email string
	// Provider is the name of the provider; empty: the first one that takes the amount.
	Provider string
	// IdempotencyKey is required.
	IdempotencyKey string
}

// Prepare opens the payment for a reference with the amount that the ticket service returns, and
// returns it with the provider's page. If the reference already has an open payment, that one is
// returned. If the result is PREPARED without a page, the client repeats the request.
//
// Errors: those of idempotency, the ticket service's, ErrInProgress (for another payment or user),
// ErrAlreadyPaid, ErrProviderUnknown, ErrAmountNotTaken, ErrProviderUnavailable, ErrSettlementDelayed,
// ErrTooManyPages.
func (s *Service) Prepare(ctx context.Context, r PrepareRequest) (Payment, Page, error) {
	p, err := s.open(ctx, r)
	if err != nil || p.Provider == NoProvider {
		return p, Page{}, err
	}
	provider, ok := s.providers.For(p)
	switch {
	case !ok:
		return p, Page{}, ErrProviderUnavailable
	case p.Status == Prepared && p.HasPage():
		return s.openPage(ctx, p, provider)
	default:
		return p, s.pageOf(ctx, p), nil
	}
}

// open returns the open payment of a reference, or a new one if there is none.
func (s *Service) open(ctx context.Context, r PrepareRequest) (Payment, error) {
	key, err := idempotency.Require(r.UserID, routePrepare, r.IdempotencyKey, string(r.Reference.Type), r.Reference.ID.String())
	if err != nil {
		return Payment{}, err
	}
	// A repeated request must get its first answer even when the reference can no longer be paid, so
	// the key is checked before the ticket service is asked.
	first, err := s.store.Replay(ctx, key)
	if err != nil {
		return Payment{}, err
	}
	if first != nil {
		return *first, nil
	}
	payable, err := s.tickets.Payable(ctx, r.Reference, r.UserID)
	if err != nil {
		return Payment{}, err
	}
	name, token, err := s.providers.choose(r.Provider, payable)
	if err != nil {
		return Payment{}, err
	}
	orderID := newID().String()
	return s.store.Open(ctx, Payment{
		ID:              newID(),
		OrderID:         orderID,
		Reference:       r.Reference,
		UserID:          r.UserID,
		EventID:         payable.EventID,
		Amount:          payable.Amount,
		Currency:        payable.Currency,
		Description:     cmp.Or(shortened(payable.Description), "Order "+orderID),
		StatementSuffix: payable.StatementSuffix,
		Email:           r.Email,
		Provider:        name,
		Mode:            s.providers.mode(),
		Status:          Prepared,
		Token:           token,
		TokenSHA256:     TokenDigest(token),
		ExpiresAt:       payable.ExpiresAt,
	}, key)
}

// maxDescription is the most characters that Toss Payments accepts as an order's name.
const maxDescription = 100

// shortened returns the text in one line of at most maxDescription characters.
func shortened(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= maxDescription {
		return string(line)
	}
	return string(line[:maxDescription-1]) + "…"
}

// Get returns the user's payment (for an operator: any) with timeline and refunds, or ErrNotFound.
func (s *Service) Get(ctx context.Context, id uuid.UUID, userID string, operator bool) (View, error) {
	p, err := s.store.Show(ctx, id)
	if err != nil {
		return View{}, err
	}
	if p.Payment.UserID != userID && !operator {
		return View{}, ErrNotFound
	}
	if rate := s.opts.EndpointRate(p.Payment.Provider); rate > 0 && p.Payment.Awaited() {
		ahead, err := s.store.AheadOf(ctx, id)
		if err != nil {
			return View{}, err
		}
		p.Wait = time.Duration(float64(ahead) / rate * float64(time.Second))
	}
	return p, nil
}

// ByReference returns the payments of a reference with timeline and refunds, oldest first.
func (s *Service) ByReference(ctx context.Context, ref Reference) ([]View, error) {
	ids, err := s.store.PaymentIDsByReference(ctx, ref)
	list := make([]View, len(ids))
	for i := 0; i < len(ids) && err == nil; i++ {
		list[i], err = s.store.Show(ctx, ids[i])
	}
	return list, err
}

// ByOrderID returns the payment with a provider's order id; an empty list if there is none.
func (s *Service) ByOrderID(ctx context.Context, orderID string) ([]View, error) {
	id, err := s.store.PaymentIDByOrderID(ctx, orderID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := s.store.Show(ctx, id)
	return []View{p}, err
}

// IsOrderID reports whether an order id has the form of this service's order ids. Others come from
// other shops at the account of a provider, or from anybody: they are not looked up, and not logged.
func IsOrderID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.String() == id
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
