// Package request accepts the requests of users to promotions, one per user and promotion. Every
// accepted request gets a result, even if processes die.
package request

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// Errors of applications and of reads of requests.
var (
	ErrPromotionNotFound = errs.ErrPromotionNotFound
	ErrNotFound          = errs.ErrRequestNotFound
	ErrWithdrawnTooOften = errs.ErrWithdrawnTooOften
	ErrNotOpen           = errs.ErrNotOpen
	ErrTooMany           = errs.ErrOverloaded.WithRetry(busyRetry)
)

const (
	// busyRetry is when to try again after a refusal because too many requests have no result.
	busyRetry = 5 * time.Second
	// SendWait is how long Apply waits until SQS has accepted the request. It is kept in any case.
	SendWait = 2 * time.Second
)

// Application is a user's call to take part in a promotion.
type Application struct {
	EventID, UserID string
	// KeyHash is the hash of the Idempotency-Key; empty without a key.
	KeyHash   string
	Promotion promotion.Promotion
	// Full says that a first-come promotion has no place left: a new request is stored as rejected.
	Full bool
	// Busy says that too many requests have no result yet: a new one is refused with ErrTooMany.
	Busy bool
}

// ApplyResult is the answer to an application.
type ApplyResult struct {
	Request promotion.Request
	// Duplicate says that the user already had the request by an earlier application.
	Duplicate bool
	// StoredBy is a time (epoch ms) at which the request was surely stored.
	StoredBy int64
	// Receipt is the signed receipt of a lottery request; empty for other requests.
	Receipt string
}

// PromotionLoad tells how many requests of a promotion have no result yet.
type PromotionLoad struct {
	Unsettled int64
}

// Filter selects requests of a promotion. A field with its zero value selects all requests.
type Filter struct {
	Status     promotion.Status
	ResultCode promotion.ResultCode
	// View converts a request to the form that is shown. The other fields apply to this form. If View
	// is nil, requests are not converted.
	View func(promotion.Request) promotion.Request
}

// Selects converts the request by View, and reports whether the filter selects it.
func (f Filter) Selects(r *promotion.Request) bool {
	if f.View != nil {
		*r = f.View(*r)
	}
	return (f.Status == "" || f.Status == r.Status) && (f.ResultCode == "" || f.ResultCode == r.ResultCode)
}

// Acceptor stores requests.
type Acceptor interface {
	// Accept stores a request, or finds the user's earlier one; Decide determines which. Concurrent
	// calls share their reads and writes.
	Accept(ctx context.Context, a Application) (ApplyResult, error)
}

// Sender puts requests in the SQS queue.
type Sender interface {
	// Send waits until SQS has accepted the request, and returns it as QUEUED. This status is stored
	// some time later, or together with the result. If ctx ends first, the request is sent all the
	// same; after any other error the sweeper sends it.
	Send(ctx context.Context, r promotion.Request) (promotion.Request, error)
	// Busy reports whether so many requests wait to be sent that new ones should be refused.
	Busy() bool
}

// Promotions reads promotions, which are at most some seconds old.
type Promotions interface {
	Get(ctx context.Context, eventID string) (promotion.Promotion, error)
}

// Store stores accepted and refused requests, and withdraws requests.
type Store interface {
	Acceptor
	Refusals
	Withdrawer
}

// Service stores users' applications as requests, sends these to the SQS queue, and withdraws them.
type Service struct {
	promotions Promotions
	loads      *cacheOf[PromotionLoad]
	places     *Places
	soldOut    *soldOut
	store      Store
	sender     Sender
	receipts   *Receipts
	sendWait   time.Duration
}

// Options are the dependencies of a Service, and how long it waits for SQS.
type Options struct {
	// Load reads how busy a promotion is.
	Load     func(ctx context.Context, eventID string) (PromotionLoad, error)
	Places   *Places
	SendWait time.Duration // see the constant SendWait
	Receipts *Receipts
	Now      func() time.Time
}

// NewService returns a Service.
func NewService(promotions Promotions, store Store, sender Sender, o Options) *Service {
	return &Service{
		promotions: promotions, store: store, sender: sender, loads: newCache(o.Now, freshFor, o.Load), places: o.Places,
		soldOut: newSoldOut(store, o.Now), receipts: o.Receipts, sendWait: o.SendWait,
	}
}

// SoldOut returns a promotion and true if it is known to have no place left, else false.
func (s *Service) SoldOut(ctx context.Context, eventID string) (promotion.Promotion, bool) {
	p, err := s.promotions.Get(ctx, eventID)
	if err != nil {
		return p, false
	}
	left, limited, err := s.places.Left(ctx, &p)
	return p, err == nil && limited && left == 0
}

// ApplySoldOut does what Apply does, for applications to a sold-out promotion, in their order.
func (s *Service) ApplySoldOut(ctx context.Context, all []Application) []Outcome[ApplyResult] {
	return s.soldOut.apply(ctx, all)
}

// Apply stores a user's request and sends it to the SQS queue. A request that is stored and not
// sent yet has the status RECEIVED; the sweeper sends it later.
func (s *Service) Apply(ctx context.Context, a Application) (ApplyResult, error) {
	p, err := s.promotions.Get(ctx, a.EventID)
	if err != nil {
		return ApplyResult{}, err
	}
	a.Promotion = p
	left, limited, err := s.places.Left(ctx, &p)
	if err != nil {
		return ApplyResult{}, err
	}
	if limited && left == 0 {
		got := s.soldOut.apply(ctx, []Application{a})[0]
		return got.Value, got.Err
	}
	load, err := s.loads.Get(ctx, a.EventID)
	if err != nil {
		return ApplyResult{}, err
	}
	a.Busy = load.Unsettled > p.MaxUnsettled() || s.sender.Busy()
	applied, err := s.store.Accept(ctx, a)
	if err != nil {
		return applied, err
	}
	applied.Receipt = s.receipts.ReceiptFor(&p, &applied.Request, applied.StoredBy)
	if applied.Duplicate || applied.Request.Status != promotion.Received {
		return applied, nil
	}
	// The request is sent even if the caller does not wait any longer.
	sendCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.sendWait)
	defer cancel()
	if sent, err := s.sender.Send(sendCtx, applied.Request); err == nil {
		applied.Request = sent
	}
	return applied, nil
}
