// Package request takes the requests of users to promotions: once per user and promotion, and with
// the promise that each is settled, whatever process dies.
package request

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// The refusals.
var (
	ErrPromotionNotFound = errs.ErrPromotionNotFound
	ErrNotFound          = errs.ErrRequestNotFound
	ErrWithdrawnTooOften = errs.ErrWithdrawnTooOften
	ErrNotOpen           = errs.ErrNotOpen
	ErrTooMany           = errs.ErrOverloaded.WithRetry(busyRetry)
)

const (
	// maxUnsettled bounds the requests of a promotion that are not settled. Above it applicants without
	// a request are told to come back later.
	maxUnsettled = 10_000
	busyRetry    = 5 * time.Second
	// SendWait bounds how long an application waits for the queue. Its request is kept either way.
	SendWait = 2 * time.Second
)

// Application is what a user asks for: a request to a promotion.
type Application struct {
	EventID, UserID string
	// KeyHash is of the Idempotency-Key; empty without one.
	KeyHash string
	// Promotion is the configuration in force.
	Promotion promotion.Promotion
	// Full: nothing is left of a first-come promotion, so that the request is rejected at once.
	Full bool
	// Busy: too many requests are not settled, so that a user without one is refused (ErrTooMany).
	Busy bool
}

// Applied is the answer to an application.
type Applied struct {
	Request promotion.Request
	// Duplicate: an earlier application of the user made the request.
	Duplicate bool
	// StoredBy is a time by which the request was stored.
	StoredBy int64
	// Receipt of a lottery request, if it has one.
	Receipt string
}

// Load is how busy a promotion is.
type Load struct {
	Unsettled int64
	// Full: nothing is left of a first-come promotion. That never changes again.
	Full bool
}

// Filter selects requests of a promotion; empty members select all.
type Filter struct {
	Status     promotion.Status
	ResultCode promotion.ResultCode
	// View is how requests are shown, which is what counts; nil: as they are stored.
	View func(promotion.Request) promotion.Request
}

// Selects reports whether a request is selected. It becomes what is shown of it.
func (f Filter) Selects(r *promotion.Request) bool {
	if f.View != nil {
		*r = f.View(*r)
	}
	return (f.Status == "" || f.Status == r.Status) && (f.ResultCode == "" || f.ResultCode == r.ResultCode)
}

// Acceptor stores requests.
type Acceptor interface {
	// Accept stores a request, or finds the one that the user has, as Decide decides. Calls that arrive
	// together share their reads and writes.
	Accept(ctx context.Context, a Application) (Applied, error)
}

// Sender puts requests in the queue.
type Sender interface {
	// Send waits until the queue has taken the request's message and that is recorded, and returns the
	// request as it is then. After an error the sweeper sends it.
	Send(ctx context.Context, r promotion.Request) (promotion.Request, error)
}

// Promotions gives configurations, at most some seconds old.
type Promotions interface {
	Get(ctx context.Context, eventID string) (promotion.Promotion, error)
}

// Store stores requests and takes them back.
type Store interface {
	Acceptor
	Withdrawer
}

// Service takes applications.
type Service struct {
	promotions Promotions
	loads      *Cache[Load]
	store      Store
	sender     Sender
	receipts   *Receipts
	sendWait   time.Duration
}

// Options of a service.
type Options struct {
	// Load reads how busy a promotion is.
	Load func(ctx context.Context, eventID string) (Load, error)
	// SendWait bounds how long an application waits for the queue; see SendWait.
	SendWait time.Duration
	Receipts *Receipts
	Now      func() time.Time
}

// NewService makes a service.
func NewService(promotions Promotions, store Store, sender Sender, o Options) *Service {
	return &Service{
		promotions: promotions, store: store, sender: sender, loads: NewCache(o.Now, o.Load), receipts: o.Receipts, sendWait: o.SendWait,
	}
}

// Apply stores a user's request and puts it in the queue. The request is safe once it is stored: an
// answer without the queue has the status RECEIVED.
func (s *Service) Apply(ctx context.Context, a Application) (Applied, error) {
	p, err := s.promotions.Get(ctx, a.EventID)
	if err != nil {
		return Applied{}, err
	}
	load, err := s.loads.Get(ctx, a.EventID)
	if err != nil {
		return Applied{}, err
	}
	a.Promotion, a.Full, a.Busy = p, load.Full, load.Unsettled > maxUnsettled && !load.Full
	applied, err := s.store.Accept(ctx, a)
	if err != nil {
		return applied, err
	}
	applied.Receipt = s.receipts.Of(&p, &applied.Request, applied.StoredBy)
	if applied.Duplicate || applied.Request.Status != promotion.Received {
		return applied, nil
	}
	// A caller who leaves does not keep the request from the queue.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.sendWait)
	defer cancel()
	if sent, err := s.sender.Send(sending, applied.Request); err == nil {
		applied.Request = sent
	}
	return applied, nil
}
