package purchase

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Target answers the payment service's calls about one type of purchase.
type Target interface {
	// Payable returns what a user can pay; ErrReferenceNotFound if it is another user's.
	Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error)
	// BeginPayment reserves time for a payment. It must succeed before the provider is called, and
	// again before the charge.
	BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, t PayTime) (*Payable, error)
	// AbortPayment undoes BeginPayment for a payment that was definitely not taken.
	AbortPayment(ctx context.Context, id, payment uuid.UUID, why Failure) error
	// ExtendPayments gives payments that are still under way more time, and returns these payments.
	ExtendPayments(ctx context.Context, payments []UnderWay) ([]UnderWay, error)
}

// Targets has the Target of each type that is sold here.
type Targets map[Type]Target

// Sold reports whether this type of purchase is sold here.
func (t Targets) Sold(k Type) bool { return t[k] != nil }

// Of returns the target of a type, or ErrReferenceNotFound for a type that is not sold.
func (t Targets) Of(k Type) (Target, error) {
	if !t.Sold(k) {
		return nil, ErrReferenceNotFound
	}
	return t[k], nil
}

// Store reads and changes the purchases of one type. It returns ErrReferenceNotFound for an unknown id.
type Store[P Purchase] interface {
	// FindToPay returns a purchase and the database's time. It locks nothing, and so may be a little
	// old.
	FindToPay(ctx context.Context, id uuid.UUID) (P, time.Time, error)
	// ChangeToBegin locks a purchase, reads what else decides whether a payment may begin, calls
	// change, and writes the change and its Kafka events in the same transaction; nothing if change
	// returns an error.
	ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p P, now time.Time) error) error
	// ChangeClaims calls change in the same way for each of the purchases of payments that have begun.
	ChangeClaims(ctx context.Context, payments []UnderWay, change func(p P, payment uuid.UUID, now time.Time)) error
	// Paying returns those of the payments that are under way, and those of them that have less time
	// left than the parameter left (short). It locks nothing.
	Paying(ctx context.Context, payments []UnderWay, left time.Duration) (paying, short []UnderWay, err error)
}

// Kind is the Target of a type of purchase, P.
type Kind[P Purchase] struct {
	store        Store[P]
	maxExtension time.Duration
}

// NewKind makes a Kind. Payments extend the time to pay by maxExtension at most, however often they
// fail and are begun again; it must be at least PayWithin.
func NewKind[P Purchase](store Store[P], maxExtension time.Duration) Kind[P] {
	return Kind[P]{store: store, maxExtension: maxExtension}
}

func (k Kind[P]) Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error) {
	return k.find(ctx, userID, id, uuid.Nil)
}

// find returns what a user can pay with a payment; zero: with a new one.
func (k Kind[P]) find(ctx context.Context, userID string, id, payment uuid.UUID) (*Payable, error) {
	p, now, err := k.store.FindToPay(ctx, id)
	if err == nil {
		err = p.Payable(userID, payment, now)
	}
	if err != nil {
		return nil, err
	}
	return p.ToPay(), nil
}

// BeginPayment refuses what it can before it locks anything.
func (k Kind[P]) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, t PayTime) (*Payable, error) {
	found, err := k.find(ctx, userID, id, payment)
	if err != nil {
		return nil, err
	}
	err = k.store.ChangeToBegin(ctx, id, func(p P, now time.Time) error {
		err := Begin(p, userID, payment, t, now, k.maxExtension)
		found.ExpiresAt = p.ToPay().ExpiresAt
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (k Kind[P]) AbortPayment(ctx context.Context, id, payment uuid.UUID, why Failure) error {
	one := []UnderWay{{ReferenceID: id, PaymentID: payment}}
	return k.store.ChangeClaims(ctx, one, func(p P, payment uuid.UUID, now time.Time) { Abort(p, payment, why, now, k.maxExtension) })
}

// ExtendPayments locks only the purchases of payments that are short of time.
func (k Kind[P]) ExtendPayments(ctx context.Context, payments []UnderWay) ([]UnderWay, error) {
	paying, short, err := k.store.Paying(ctx, payments, ExtendTo)
	if err != nil || len(short) == 0 {
		return paying, err
	}
	return paying, k.store.ChangeClaims(ctx, short, func(p P, payment uuid.UUID, now time.Time) { Extend(p, payment, now, k.maxExtension) })
}

// EndBatch is the most rows that one query of what is due returns.
const EndBatch = 200

// EndDue calls end for each id that due returns, EndBatch at a time, until due returns none. An
// error for one id does not stop the others.
func EndDue(ctx context.Context, due func(ctx context.Context, max int) ([]uuid.UUID, error), end func(context.Context, uuid.UUID) error) error {
	for ctx.Err() == nil {
		ids, err := due(ctx, EndBatch)
		if err != nil {
			return err
		}
		var failed error
		for _, id := range ids {
			failed = errors.Join(failed, end(ctx, id))
		}
		if failed != nil || len(ids) < EndBatch {
			return failed
		}
	}
	return ctx.Err()
}
