package line

import (
	"context"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

// EntitlementSource asks the ticket service who may buy in the presale of an event.
type EntitlementSource interface {
	// HoldEntitlement reports, within half a second, which visitors have an entitlement, in order.
	HoldEntitlement(ctx context.Context, eventID string, visitors []Visitor) ([]bool, error)
}

const (
	// The ticket service is asked once per askAgainAfter about a user without an entitlement who polls,
	// or who comes without the required position, however often the waiting room gets the user back. A
	// cached "no" is used for maxNegativeAgeForPolls when the user polls, and only for
	// maxNegativeAgeForJoins at other joins: the user may have just entered a code or a membership.
	askAgainAfter          = time.Minute
	maxNegativeAgeForPolls = askAgainAfter - 10*time.Second
	maxNegativeAgeForJoins = time.Second
	// maxAnswersKept is the most answers that a replica caches. maxAsksWaiting is the most users of a
	// line about whom a worker is still to ask; later polls ask about further users.
	maxAnswersKept = 50_000
	maxAsksWaiting = 20_000
	// maxPendingPerAsk is the most users in a worker's call to the ticket service. maxAnswersPerScript
	// is the most answers in a call of the store.
	maxPendingPerAsk    = 500
	maxAnswersPerScript = 128
	// askInterval is the time between a worker's calls; after a failed call it is askRetry.
	askInterval = 250 * time.Millisecond
	askRetry    = time.Second
)

// entitlements asks the ticket service who is entitled to presales. It caches answers for a minute.
// The cache only saves calls, since the lines store the answers.
type entitlements struct {
	source EntitlementSource
	meter  Meter
	now    func() time.Time
	// answers has what the ticket service has answered within the last askAgainAfter.
	answers *otter.Cache[entitlementKey, entitlementAnswer]

	mu      sync.Mutex
	waiting map[string]map[string]Visitor // about whom a worker is to ask, by event and user
	failed  map[string]time.Time          // when the last call failed, by event
}

type entitlementKey struct{ event, user string }

type entitlementAnswer struct {
	entitled bool
	at       time.Time
}

func newEntitlements(source EntitlementSource, meter Meter, now func() time.Time) *entitlements {
	e := &entitlements{source: source, meter: meter, now: now, waiting: make(map[string]map[string]Visitor), failed: make(map[string]time.Time)}
	e.answers = otter.Must(&otter.Options[entitlementKey, entitlementAnswer]{ // constants, which are valid
		MaximumSize: maxAnswersKept, Clock: cacheClock(now), ExpiryCalculator: otter.ExpiryWriting[entitlementKey, entitlementAnswer](askAgainAfter),
	})
	return e
}

// toEntitlement converts an answer of the ticket service; no is what a "no" is worth.
func toEntitlement(entitled bool, no Entitlement) Entitlement {
	if entitled {
		return Entitled
	}
	return no
}

// lookUp returns each visitor's entitlement, cached or asked for. If asking fails, the visitors
// without a cached one get EntitlementUnknown. A cached "no" is used up to maxNegativeAge, as
// NotEntitledBefore.
func (e *entitlements) lookUp(ctx context.Context, eventID string, visitors []Visitor, join bool) ([]Entitlement, error) {
	out := make([]Entitlement, len(visitors))
	var ask []Visitor
	var indexes []int
	for i, v := range visitors {
		if a, ok := e.answers.GetIfPresent(entitlementKey{eventID, v.UserID}); ok && (a.entitled || e.now().Sub(a.at) < maxNegativeAge(v, join)) {
			out[i] = toEntitlement(a.entitled, NotEntitledBefore)
			continue
		}
		ask, indexes = append(ask, v), append(indexes, i)
	}
	if len(ask) == 0 {
		return out, nil
	}
	entitled, err := e.source.HoldEntitlement(ctx, eventID, ask)
	e.meter.AddEntitlementAnswers(entitled, len(ask))
	if err != nil {
		return out, err
	}
	for k, yes := range entitled {
		e.answers.Set(entitlementKey{eventID, ask[k].UserID}, entitlementAnswer{yes, e.now()})
		out[indexes[k]] = toEntitlement(yes, NotEntitled)
	}
	return out, nil
}

// maxNegativeAge returns how old a "no" may be that is used when a visitor joins or polls.
func maxNegativeAge(v Visitor, join bool) time.Duration {
	switch {
	case !join:
		return maxNegativeAgeForPolls
	case v.Tier1.Required && v.Tier1.Position == 0:
		return askAgainAfter
	default:
		return maxNegativeAgeForJoins
	}
}

// enqueue adds visitors about whom a worker is to ask the ticket service.
func (e *entitlements) enqueue(eventID string, visitors []Visitor) {
	if len(visitors) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	users := e.waiting[eventID]
	if users == nil {
		users = make(map[string]Visitor, len(visitors))
		e.waiting[eventID] = users
	}
	for _, v := range visitors[:min(len(visitors), maxAsksWaiting-len(users))] {
		users[v.UserID] = v
	}
}

// dueEvents lists the events with visitors about whom a worker is to ask now.
func (e *entitlements) dueEvents() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.failed, func(_ string, at time.Time) bool { return e.now().Sub(at) >= askRetry })
	return slices.DeleteFunc(slices.Collect(maps.Keys(e.waiting)), func(eventID string) bool {
		_, wait := e.failed[eventID]
		return wait
	})
}

// requeue adds visitors again, since the call about them has failed.
func (e *entitlements) requeue(eventID string, visitors []Visitor) {
	e.mu.Lock()
	e.failed[eventID] = e.now()
	e.mu.Unlock()
	e.enqueue(eventID, visitors)
}

// dequeue removes and returns the queued visitors of an event.
func (e *entitlements) dequeue(eventID string) []Visitor {
	e.mu.Lock()
	defer e.mu.Unlock()
	users := e.waiting[eventID]
	delete(e.waiting, eventID)
	return slices.Collect(maps.Values(users))
}

// isTurnToAsk reports whether to ask again about a waiter who polls now and whose last stored
// contact was at lastSeen (ms). It returns true once a minute, at a time that depends on the user.
func isTurnToAsk(userID string, lastSeen, now int64) bool {
	period := askAgainAfter.Milliseconds()
	phase := int64(crc32.ChecksumIEEE([]byte(userID))) % period
	return (lastSeen+phase)/period != (now+phase)/period
}

// answerEntitlements sets the entitlements of the claims to the answers of the ticket service, if
// the event has a presale and its general sale has not opened yet.
func (s *Service) answerEntitlements(ctx context.Context, eventID string, reqs []PlaceRequest, indexes []int, join bool, claims []PlaceClaim) {
	// A call has either only heartbeats or none.
	if len(indexes) == 0 || reqs[indexes[0]].heartbeat || !s.cache.beforeGeneral(eventID) {
		return
	}
	visitors := make([]Visitor, len(indexes))
	for k, i := range indexes {
		visitors[k] = reqs[i].Visitor
	}
	answers, err := s.entitlements.lookUp(ctx, eventID, visitors, join)
	if err != nil {
		s.log.DebugContext(ctx, "entitlements not read", "event", eventID, "error", err) // a worker asks again, and logs a failure
	}
	for k := range claims {
		claims[k].Entitled = answers[k]
	}
}

// askLaterAbout enqueues the waiting visitors whose entitlement is unknown.
func (s *Service) askLaterAbout(eventID string, reqs []PlaceRequest, indexes []int, state LineState, claims []PlaceClaim, outcomes []ClaimOutcome) {
	if !state.BeforeGeneral() {
		return
	}
	var visitors []Visitor
	for k, i := range indexes {
		if outcomes[k].State == Waiting && !reqs[i].heartbeat && !outcomes[k].Entitled && claims[k].Entitled == EntitlementUnknown {
			visitors = append(visitors, reqs[i].Visitor)
		}
	}
	s.entitlements.enqueue(eventID, visitors)
}

// askPending asks the ticket service about the enqueued visitors of a line, and stores in the line
// who is entitled. After a failure it enqueues them again.
func (s *Service) askPending(ctx context.Context, eventID string) {
	visitors := s.entitlements.dequeue(eventID)
	for len(visitors) > 0 && s.cache.beforeGeneral(eventID) {
		chunk := visitors[:min(len(visitors), maxPendingPerAsk)]
		answers, err := s.entitlements.lookUp(ctx, eventID, chunk, false)
		s.logAskFailure(ctx, eventID, err)
		s.keepEntitled(ctx, eventID, chunk, answers)
		if err != nil {
			s.entitlements.requeue(eventID, visitors)
			return
		}
		visitors = visitors[len(chunk):]
	}
}

// keepEntitled stores in the line which users are entitled. After a failure, later polls repeat it.
func (s *Service) keepEntitled(ctx context.Context, eventID string, visitors []Visitor, answers []Entitlement) {
	var entitled []EntitlementAnswer
	for i, a := range answers {
		if a == Entitled {
			entitled = append(entitled, EntitlementAnswer{UserID: visitors[i].UserID, Entitled: true})
		}
	}
	for chunk := range slices.Chunk(entitled, maxAnswersPerScript) {
		state, err := s.store.Entitle(ctx, eventID, s.cache.Snapshot(eventID), chunk)
		if err != nil {
			s.log.WarnContext(ctx, "entitlements not kept", "event", eventID, "count", len(chunk), "error", err)
			return
		}
		s.cache.Observe(eventID, state)
	}
}

// logAskFailure logs when questions about entitlements begin to fail, and when they succeed again.
func (s *Service) logAskFailure(ctx context.Context, eventID string, err error) {
	failing := err != nil
	switch {
	case ctx.Err() != nil || s.asksFailing.Swap(failing) == failing:
	case failing:
		s.log.WarnContext(ctx, "entitlements not read", "event", eventID, "error", err)
	default:
		s.log.InfoContext(ctx, "entitlements can be read again")
	}
}

// beforeGeneral reports whether an event has a presale, and its general sale has not opened yet.
func (c *LineCache) beforeGeneral(eventID string) bool {
	return readEntry(c, eventID, func(e *lineEntry) bool { return e.known.Sale.isBeforeGeneral(e.lineTime(c.now())) })
}
