// Package promotion is the domain that ingest and worker share: what promotions, the requests to
// them, draws and their messages are, and how a request may change. What is stored of them is in
// the package table, what is sent of them in the package queue. Times are epoch milliseconds.
//
// The status machine of a request. Every change names the status, statusAt, gen and attempts that
// it read, and sets statusAt to max(now, statusAt + 1): the log has one entry per millisecond, in
// order, whatever the clocks of the processes are.
//
//	RECEIVED ──▶ QUEUED ──▶ PROCESSING ──▶ SUCCEEDED
//	   │            │            ├───────▶ REJECTED
//	   │            │            └───────▶ FAILED_FINAL ──▶ QUEUED (redriven by an operator)
//	   ├────────────┴─▶ REJECTED (nothing is left)
//	   └─▶ FAILED_FINAL (it could not be put in the queue)
package promotion

// Promotion is an offer to which users apply. In code an application is a Request.
type Promotion struct {
	EventID       string
	Title         string
	EventType     Type
	CapacityTotal int64

	OpensAt, ClosesAt            int64
	LotteryCutoffAt, AnnouncedAt int64 // lottery only
	ClosedAt, VoidedAt           int64 // by an operator; 0: not
	PublishedAt                  int64 // lottery only: when the result became public; 0: not yet

	// Commitment is what a lottery published when it opened: canonical JSON (pkg/fairdraw), verbatim.
	Commitment string
	// SeedNonce makes the seed of the draw unique: 32 bytes in hex. It is not public before the seed.
	SeedNonce string

	Paused    bool  // takes no requests at present
	Shards    int64 // of GSI2; at least 1
	CreatedAt int64
	// Version grows with each change by an operator.
	Version int64
}

// PromotionStatus is computed from what is stored and the clock.
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

// EndsAt is when the promotion is over and announced. Closing it earlier does not change that.
func (p *Promotion) EndsAt() int64 { return max(p.ClosesAt, p.AnnouncedAt) }

// RetentionDays is how long requests, entries and winners are kept after EndsAt.
const RetentionDays = 90

// LockDays is how long the locks of users are kept after EndsAt.
const LockDays = 7

// LocksExpired reports whether the locks of users may have expired, so that only the indexes tell who
// has applied.
func (p *Promotion) LocksExpired(now int64) bool { return p.EndsAt()/1000+LockDays*24*3600 <= now/1000 }

// RequestsExpired reports whether the promotion's requests, entries and winners have expired.
func (p *Promotion) RequestsExpired(now int64) bool {
	return p.EndsAt()/1000+RetentionDays*24*3600 <= now/1000
}

// Capacity is what is left of a first-come promotion. It never rises.
type Capacity struct {
	EventID          string
	Total, Remaining int64
	UpdatedAt        int64
	// SentAt is when the queue got the latest message settled, by its clock: messages of the event
	// sent before it have been settled, or are lost.
	SentAt int64
}
