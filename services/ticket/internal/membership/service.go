package membership

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/readcache"
	"urr.guru/services/ticket/internal/purchase"
)

// maxOnSale is the most plans that users are shown. They are read again after onSaleFor.
const (
	maxOnSale = 100
	onSaleFor = time.Second
)

// Decide changes a membership, whose row is locked.
type Decide func(m *Membership, now time.Time) error

// Plans stores plans.
type Plans interface {
	// CreatePlan stores a plan. A repeated request returns the id of the plan that it stored first.
	CreatePlan(ctx context.Context, p Plan, key *idempotency.Key) (id string, err error)
	// SetOnSale begins or ends the sale of a plan, or returns ErrPlanNotFound.
	SetOnSale(ctx context.Context, id string, onSale bool) error
	// Plan returns a plan, or ErrPlanNotFound.
	Plan(ctx context.Context, id string) (*Plan, error)
	// ListOnSale returns up to max plans that are on sale, oldest first.
	ListOnSale(ctx context.Context, max int) ([]Plan, error)
	// ListPlans returns plans with ids below before (zero: all), newest first.
	ListPlans(ctx context.Context, limit int, before uuid.UUID) ([]Plan, error)
}

// Store stores memberships.
type Store interface {
	purchase.Store[*Purchase]

	// Buy returns the user's purchase of a plan that is still to be paid, or stores a new one. Errors:
	// ErrPlanNotFound, ErrPlanNotOnSale, ErrAhead, ErrFreeOnce.
	Buy(ctx context.Context, userID, planID string, contact purchase.Contact) (uuid.UUID, error)
	// Find returns a membership, or ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (*View, error)
	// List returns memberships of a user with ids below before (zero: all), newest first.
	List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, error)
	// Change lets decide change a membership, or returns ErrNotFound.
	Change(ctx context.Context, id uuid.UUID, decide Decide) error
	// Due returns up to max memberships whose time to pay is over.
	Due(ctx context.Context, max int) ([]uuid.UUID, error)
	// Holders returns those of the users who hold a membership of the plan (see Service.Holders).
	Holders(ctx context.Context, planID string, boughtBefore *time.Time, userIDs []string) ([]string, error)
}

// Counts has the numbers of unpaid purchases: Pending counts all of them, Overdue those whose time
// to pay has been over for a minute.
type Counts struct{ Pending, Overdue int64 }

// Service sells memberships.
type Service struct {
	Plans
	purchase.Kind[*Purchase]

	store  Store
	onSale *readcache.Cache[int, []Plan] // by the most plans
}

// NewService makes a Service. Payments extend the time to pay by maxExtension at most.
func NewService(plans Plans, store Store, maxExtension time.Duration) *Service {
	return &Service{
		Plans: plans, Kind: purchase.NewKind(store, maxExtension), store: store,
		onSale: readcache.New(time.Now, onSaleFor, 1, func(ctx context.Context, max int) ([]Plan, error) { return plans.ListOnSale(ctx, max) }),
	}
}

// OnSale returns the plans that are on sale, oldest first, as they were up to a second ago. If they
// cannot be read they are up to a minute old. Callers must not change them.
func (s *Service) OnSale(ctx context.Context) ([]Plan, error) { return s.onSale.Get(ctx, maxOnSale) }

// Create makes a plan, which is on sale.
func (s *Service) Create(ctx context.Context, p Plan, key *idempotency.Key) (*Plan, error) {
	p.ID = uuid.Must(uuid.NewV7()).String()
	id, err := s.CreatePlan(ctx, p, key)
	s.onSale.Clear()
	if err != nil {
		return nil, err
	}
	return s.Plan(ctx, id)
}

// Update puts a plan on sale, or ends its sale.
func (s *Service) Update(ctx context.Context, id string, onSale bool) (*Plan, error) {
	err := s.SetOnSale(ctx, id, onSale)
	s.onSale.Clear()
	if err != nil {
		return nil, err
	}
	return s.Plan(ctx, id)
}

// All returns all plans, newest first, and `before` for the next page (zero: none).
func (s *Service) All(ctx context.Context, limit int, before uuid.UUID) ([]Plan, uuid.UUID, error) {
	list, err := s.ListPlans(ctx, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	next, err := uuid.Parse(list[limit-1].ID)
	return list[:limit], next, err
}

// Buy begins a user's purchase of a plan, or returns the one that is still to be paid. Errors:
// ErrPlanNotFound, ErrPlanNotOnSale, ErrAhead, ErrFreeOnce.
func (s *Service) Buy(ctx context.Context, userID, planID string, contact purchase.Contact) (*View, error) {
	id, err := s.store.Buy(ctx, userID, planID, contact)
	if err != nil {
		return nil, err
	}
	return s.store.Find(ctx, id)
}

// Get returns a user's membership, or ErrNotFound.
func (s *Service) Get(ctx context.Context, userID string, id uuid.UUID) (*View, error) {
	m, err := s.store.Find(ctx, id)
	if err == nil && m.UserID != userID {
		return nil, ErrNotFound
	}
	return m, err
}

// List returns a user's memberships, newest first, and `before` for the next page (zero: none).
func (s *Service) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, uuid.UUID, error) {
	list, err := s.store.List(ctx, userID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Holders returns those of the users who hold a membership of a plan now. With boughtBefore they
// must also have held one at that time, or have bought one before it: users who extend later still
// count, but users who buy their first one later do not.
func (s *Service) Holders(ctx context.Context, planID string, boughtBefore *time.Time, userIDs []string) ([]string, error) {
	return s.store.Holders(ctx, planID, boughtBefore, userIDs)
}

// PaidBy returns the payment that has paid for a membership. Errors: ErrNotFound, ErrNotPaid.
func (s *Service) PaidBy(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
	m, err := s.store.Find(ctx, id)
	switch {
	case err != nil:
		return uuid.Nil, err
	case !m.Status.Paid():
		return uuid.Nil, ErrNotPaid
	default:
		return m.PaymentID, nil
	}
}

// ExpireDue cancels purchases whose time to pay is over, until none is due. Any number of replicas
// may call it at the same time.
func (s *Service) ExpireDue(ctx context.Context) error {
	return purchase.EndDue(ctx, s.store.Due, func(ctx context.Context, id uuid.UUID) error {
		return s.store.Change(ctx, id, func(m *Membership, now time.Time) error {
			m.Expire(now)
			return nil
		})
	})
}

// Sweeper returns a worker that calls ExpireDue, until its context ends.
func (s *Service) Sweeper(every time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "unpaid memberships not cancelled", s.ExpireDue)
	}
}
