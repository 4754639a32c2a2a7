// Package promotion is the domain that the services ingest and worker share: promotions, requests,
// draws and messages, and how a request may change. Package table stores them; package queue sends
// the messages. Times are epoch milliseconds.
//
// The statuses of a request. A write requires status, statusAt, gen and attempts as they were read,
// and sets statusAt to max(now, statusAt+1): with any clocks the log is in order, one entry per ms.
//
//	RECEIVED            → QUEUED                 the queue has accepted its message
//	RECEIVED            → FAILED_FINAL           it could not be put in the queue
//	RECEIVED, QUEUED    → REJECTED               nothing is left
//	QUEUED              → PROCESSING             the worker service has received its message
//	PROCESSING          → SUCCEEDED, REJECTED or FAILED_FINAL
//	FAILED_FINAL        → QUEUED                 an operator has redriven it
package promotion

import (
	"time"

	"urr.guru/pkg/plan"
	"urr.guru/pkg/spread"
)

// Promotion is an offer to which users apply. In code an application is a Request.
type Promotion struct {
	EventID       string
	Title         string
	EventType     Type
	CapacityTotal int64

	OpensAt, ClosesAt            int64
	LotteryCutoffAt, AnnouncedAt int64 // lottery only
	ClosedAt, VoidedAt           int64 // set by an operator; else 0
	PublishedAt                  int64 // lottery only: when the result became public; 0: it is not

	// Commitment is the canonical JSON of the fairdraw.Commitment of a lottery.
	Commitment string
	// SeedNonce makes the seed of the draw unique: 32 bytes in hex. It is not public before the seed.
	SeedNonce string

	Paused bool // accepts no requests at present
	// DropRejected: applications to a first-come promotion with no places left leave no record.
	DropRejected bool
	Shards       int64 // partitions of the index GSI2 for its requests; at least 1, never fewer than before
	Expected     plan.Expected
	CreatedAt    int64
	// Version grows with each change by an operator.
	Version int64
}

const (
	// minUnsettled and maxUnsettled are the limits of MaxUnsettled. 100,000 requests are processed in
	// 100 s. plan.Opening.Loads has what a pass of the sweeper reads of them.
	minUnsettled = 10_000
	maxUnsettled = plan.MaxUnsettled
)

// Expect sets the expected crowd, and the number of shards for it. That number never decreases,
// since requests stay in the shard in which they were stored.
func (p *Promotion) Expect(e plan.Expected) {
	p.Expected = e
	p.Shards = max(p.Shards, e.Shards())
}

// MaxUnsettled is the most requests that may wait to be processed. Above it new ones are refused
// for some seconds. Requests of the expected crowd are below it and wait in their order instead.
func (p *Promotion) MaxUnsettled() int64 {
	return min(max(minUnsettled, p.Expected.Visitors), maxUnsettled)
}

// Spread is over what time from the opening users apply, each at an own time: the expected crowd over
// the rate at which it is expected, but at least what the workers settle. It is at most half of the time
// in which the promotion is open, so that everybody's time comes long before the end.
func (p *Promotion) Spread() time.Duration {
	over := spread.Over(p.Expected.Visitors, max(plan.SettledPerSecond, p.Expected.PerSecond()))
	return min(over, time.Duration(p.ClosesAt-p.OpensAt)*time.Millisecond/2).Round(time.Millisecond)
}

// PromotionStatus is computed from the stored promotion and the time.
type PromotionStatus string

// The statuses of a promotion.
const (
	PromotionScheduled PromotionStatus = "Scheduled"
	PromotionOpen      PromotionStatus = "Open"
	PromotionClosed    PromotionStatus = "Closed"
	PromotionAnnounced PromotionStatus = "Announced"
	PromotionVoid      PromotionStatus = "Void"
)

func (p *Promotion) Status(now int64) PromotionStatus {
	switch {
	case p.VoidedAt != 0:
		return PromotionVoid
	case p.PublishedAt != 0 && now >= p.AnnouncedAt:
		return PromotionAnnounced
	case now >= p.closingTime():
		return PromotionClosed
	case now < p.OpensAt:
		return PromotionScheduled
	default:
		return PromotionOpen
	}
}

func (p *Promotion) Accepts(now int64) bool { return p.Status(now) == PromotionOpen && !p.Paused }

func (p *Promotion) closingTime() int64 {
	if p.ClosedAt != 0 {
		return min(p.ClosedAt, p.ClosesAt)
	}
	return p.ClosesAt
}

// EndsAt returns when the promotion is over and announced. Closing it early does not change that.
func (p *Promotion) EndsAt() int64 { return max(p.ClosesAt, p.AnnouncedAt) }

// ResultDue reports whether the result of a lottery may be public: from its announcement until its
// requests expire.
func (p *Promotion) ResultDue(now int64) bool {
	return p.EventType == Lottery && now >= p.AnnouncedAt && !p.RequestsExpired(now)
}

// RetentionDays is how many days after EndsAt requests, entries and winners are kept.
const RetentionDays = 90

// LockDays is how many days after EndsAt the locks of users are kept.
const LockDays = 7

// LocksExpired reports whether the locks of users may have been deleted, so that only the indexes
// show who has applied.
func (p *Promotion) LocksExpired(now int64) bool { return lockExpired(p.EndsAt(), now) }

func lockExpired(endsAt, now int64) bool { return endsAt/1000+LockDays*24*3600 <= now/1000 }

// RequestsExpired reports whether the promotion's requests, entries and winners may be deleted.
func (p *Promotion) RequestsExpired(now int64) bool {
	return p.EndsAt()/1000+RetentionDays*24*3600 <= now/1000
}

// Capacity says how many more first-come requests can succeed. Remaining never rises.
type Capacity struct {
	EventID          string
	Total, Remaining int64
	UpdatedAt        int64
	// SentAt is when the queue, by its clock, received the latest message that workers have processed.
	// Every message of the promotion sent before that time has been processed or is lost.
	SentAt int64
}
