package transfer

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/claim"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
)

// Decide changes a transfer and its ticket, whose rows are locked.
type Decide func(t *Transfer, tk *ticket.Ticket, terms Terms) error

// Store stores transfers.
type Store interface {
	purchase.Store[*Purchase]

	// Offer stores the offer that transfer.Offer makes. A repeated request returns the first offer.
	// renewed reports whether claimHash was stored; it is not after the offer has ended.
	Offer(ctx context.Context, req Request, key *idempotency.Key, claimHash []byte) (id uuid.UUID, renewed bool, err error)
	// Find returns a transfer, or ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (*View, error)
	// OfClaim returns the transfer whose link has the secret with this hash, or ErrNotFound.
	OfClaim(ctx context.Context, claimHash []byte) (uuid.UUID, error)
	// List returns transfers of a user, newest first, with ids below before (zero: all).
	List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, error)
	// Change lets decide change a transfer and its ticket, or returns ErrNotFound.
	Change(ctx context.Context, id uuid.UUID, decide Decide) error
	// Accept lets a user accept an offer (see Transfer.Accept).
	// entitled says whether the user has an entitlement for the event's presale.
	Accept(ctx context.Context, id uuid.UUID, userID string, contact purchase.Contact, entitled bool) error
	// Due returns up to max transfers whose time is over.
	Due(ctx context.Context, max int) ([]uuid.UUID, error)
}

// Counts has the numbers of offers that nobody has accepted yet (Open), and of those that a buyer
// still has to pay (Awaited). Overdue counts those of both whose time ended over a minute ago.
type Counts struct{ Open, Awaited, Overdue int64 }

// Service lets users pass their tickets on. It makes the secrets (claims) in the links to offers,
// and stores only their hashes.
type Service struct {
	purchase.Kind[*Purchase]

	store        Store
	entitlements Entitlements
}

// Entitlements says who may get tickets in a presale.
type Entitlements interface {
	// HoldAny reports for each of the users whether they have an entitlement for the event's presale.
	HoldAny(ctx context.Context, eventID string, users []entitlement.User) ([]bool, error)
}

// NewService makes a Service. Payments extend a buyer's time to pay by maxExtension at most.
func NewService(store Store, entitlements Entitlements, maxExtension time.Duration) *Service {
	return &Service{Kind: purchase.NewKind(store, maxExtension), store: store, entitlements: entitlements}
}

// Offer offers a ticket, and returns the offer with the secret of its link; without it if a request
// is repeated after the offer has ended. Errors: those of transfer.Offer and of idempotency.
func (s *Service) Offer(ctx context.Context, req Request, key *idempotency.Key) (*View, string, error) {
	secret := claim.New()
	id, renewed, err := s.store.Offer(ctx, req, key, claim.Hash(secret))
	if err != nil {
		return nil, "", err
	}
	if !renewed {
		secret = ""
	}
	shown, err := s.store.Find(ctx, id)
	return shown, secret, err
}

// Look returns the offer whose link has this secret or, if secret is empty, the offer with this id.
// ErrNotFound for an offer that the user may neither see nor accept.
func (s *Service) Look(ctx context.Context, userID, secret string, id uuid.UUID) (*View, error) {
	if secret != "" {
		var err error
		if id, err = s.store.OfClaim(ctx, claim.Hash(secret)); err != nil {
			return nil, err
		}
	}
	t, err := s.store.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	isParty := userID == t.Seller || userID == t.Buyer || userID == t.ToUser
	switch {
	case isParty:
	case secret == "" || t.ToUser != "":
		return nil, ErrNotFound
	case !t.Status.Lasts(): // the link shows ended offers to nobody else
		return nil, ErrEnded
	}
	return t, nil
}

// Accept accepts the offer that Look finds, and returns it (see Transfer.Accept). claims are those of
// the identity provider about the user.
func (s *Service) Accept(
	ctx context.Context, userID string, contact purchase.Contact, secret string, id uuid.UUID, claims ...string,
) (*View, error) {
	t, err := s.Look(ctx, userID, secret, id)
	if err != nil {
		return nil, err
	}
	entitled, err := s.entitlements.HoldAny(ctx, t.EventID, []entitlement.User{{ID: userID, Email: contact.Email, Claims: claims}})
	if err != nil {
		return nil, err
	}
	if err := s.store.Accept(ctx, t.ID, userID, contact, entitled[0]); err != nil {
		return nil, err
	}
	return s.store.Find(ctx, t.ID)
}

// Cancel ends the offer if the user is its seller, or the purchase if the user is its buyer.
func (s *Service) Cancel(ctx context.Context, userID string, id uuid.UUID) (*View, error) {
	err := s.store.Change(ctx, id, func(t *Transfer, tk *ticket.Ticket, terms Terms) error { return t.Cancel(tk, userID, terms.Now) })
	if err != nil {
		return nil, err
	}
	return s.store.Find(ctx, id)
}

// List returns a user's transfers, newest first, and `before` for the next page (zero: none).
func (s *Service) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, uuid.UUID, error) {
	list, err := s.store.List(ctx, userID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// ExpireDue ends offers and purchases whose time is over (see Transfer.Expire), until none is due.
// Any number of replicas may call it at the same time.
func (s *Service) ExpireDue(ctx context.Context) error {
	return purchase.EndDue(ctx, s.store.Due, func(ctx context.Context, id uuid.UUID) error {
		return s.store.Change(ctx, id, func(t *Transfer, tk *ticket.Ticket, terms Terms) error {
			t.Expire(tk, terms.Now)
			return nil
		})
	})
}

// Sweeper returns a worker that calls ExpireDue, until its context ends.
func (s *Service) Sweeper(every time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "transfers whose time is over not ended", s.ExpireDue)
	}
}
