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

// EntitlementSource asks ticket who may buy in the presale of an event.
type EntitlementSource interface {
	// HoldEntitlement returns one answer per visitor, in their order, within half a second.
	HoldEntitlement(ctx context.Context, eventID string, visitors []Visitor) ([]bool, error)
}

const (
	// Ticket is asked again about a user whom it holds not entitled once per askAgainAfter, as long as the
	// user polls, but not if the user has joined within noForPolls. When the user joins, a no counts for
	// noForJoins: a code or a membership may have been entered since.
	askAgainAfter = time.Minute
	noForPolls    = askAgainAfter - 10*time.Second
	noForJoins    = time.Second
	// maxAnswersKept bounds the answers that a replica remembers, maxAsksWaiting the users of a line about
	// whom it is still to ask. Of others it asks after their later polls.
	maxAnswersKept = 50_000
	maxAsksWaiting = 20_000
	// maxPendingPerAsk bounds the users about whom the worker asks at once, maxAnswersPerScript the answers
	// of one call of the store.
	maxPendingPerAsk    = 500
	maxAnswersPerScript = 128
	// askInterval is the time between a worker's calls for users who poll, askRetry that after a failure.
	askInterval = 250 * time.Millisecond
	askRetry    = time.Second
)

// entitlements asks ticket who is entitled to presales, and remembers answers for a minute. The lines
// keep the answers: this only spares calls.
type entitlements struct {
	source EntitlementSource
	meter  Meter
	now    func() time.Time
	// answers are what ticket has said within askAgainAfter.
	answers *otter.Cache[entitlementKey, entitlementAnswer]

	mu      sync.Mutex
	waiting map[string]map[string]Visitor // by event and user: those to ask about in the background
	failed  map[string]time.Time          // when ticket last failed to answer about an event
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

func toEntitlement(entitled bool) Entitlement {
	if entitled {
		return Entitled
	}
	return NotEntitled
}

// of returns what ticket says of each visitor; EntitlementUnknown where it does not answer. A negative
// answer counts for the time noFor. err is a failure of ticket.
func (e *entitlements) of(ctx context.Context, eventID string, visitors []Visitor, noFor time.Duration) ([]Entitlement, error) {
	out := make([]Entitlement, len(visitors))
	var ask []Visitor
	var at []int
	for i, v := range visitors {
		if a, ok := e.answers.GetIfPresent(entitlementKey{eventID, v.UserID}); ok && (a.entitled || e.now().Sub(a.at) < noFor) {
			out[i] = toEntitlement(a.entitled)
			continue
		}
		ask, at = append(ask, v), append(at, i)
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
		out[at[k]] = toEntitlement(yes)
	}
	return out, nil
}

// later notes visitors about whom the worker asks soon.
func (e *entitlements) later(eventID string, visitors []Visitor) {
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

// lines lists the events with visitors to ask about now.
func (e *entitlements) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.failed, func(_ string, at time.Time) bool { return e.now().Sub(at) >= askRetry })
	return slices.DeleteFunc(slices.Collect(maps.Keys(e.waiting)), func(eventID string) bool {
		_, wait := e.failed[eventID]
		return wait
	})
}

// retryLater notes visitors again about whom ticket has not answered.
func (e *entitlements) retryLater(eventID string, visitors []Visitor) {
	e.mu.Lock()
	e.failed[eventID] = e.now()
	e.mu.Unlock()
	e.later(eventID, visitors)
}

// take returns the noted visitors of an event, and forgets them.
func (e *entitlements) take(eventID string) []Visitor {
	e.mu.Lock()
	defer e.mu.Unlock()
	users := e.waiting[eventID]
	delete(e.waiting, eventID)
	return slices.Collect(maps.Values(users))
}

// isTurnToAsk reports whether to ask again about a waiter who polls now and had the last stored contact
// at lastSeen (ms): once a minute, at another moment of it for each user, whichever replica is polled.
func isTurnToAsk(userID string, lastSeen, now int64) bool {
	period := askAgainAfter.Milliseconds()
	phase := int64(crc32.ChecksumIEEE([]byte(userID))) % period
	return (lastSeen+phase)/period != (now+phase)/period
}

// answerEntitlements puts ticket's answers into claims, while the sale of an event with a presale is
// still to open.
func (s *Service) answerEntitlements(ctx context.Context, eventID string, reqs []PlaceRequest, indexes []int, join bool, claims []PlaceClaim) {
	// A call has either only heartbeats or none.
	if len(indexes) == 0 || reqs[indexes[0]].heartbeat || !s.cache.beforeGeneral(eventID) {
		return
	}
	visitors := make([]Visitor, len(indexes))
	for k, i := range indexes {
		visitors[k] = reqs[i].Visitor
	}
	noFor := noForPolls
	if join {
		noFor = noForJoins
	}
	answers, err := s.entitlements.of(ctx, eventID, visitors, noFor)
	if err != nil {
		s.log.DebugContext(ctx, "entitlements not read", "event", eventID, "error", err) // the worker repeats and logs it
	}
	for k := range claims {
		claims[k].Entitled = answers[k]
	}
}

// askLaterAbout notes the visitors who wait and about whom nothing is known, to be asked about soon.
func (s *Service) askLaterAbout(eventID string, reqs []PlaceRequest, indexes []int, state LineState, claims []PlaceClaim, outcomes []ClaimOutcome) {
	if !state.BeforeGeneral() {
		return
	}
	var visitors []Visitor
	for k, i := range indexes {
		if outcomes[k].Standing == Waiting && !reqs[i].heartbeat && !outcomes[k].Entitled && claims[k].Entitled == EntitlementUnknown {
			visitors = append(visitors, reqs[i].Visitor)
		}
	}
	s.entitlements.later(eventID, visitors)
}

// askPending asks ticket about the noted visitors of a line, and lets those wait among the entitled who
// are. If ticket does not answer, the worker repeats it.
func (s *Service) askPending(ctx context.Context, eventID string) {
	visitors := s.entitlements.take(eventID)
	for len(visitors) > 0 && s.cache.beforeGeneral(eventID) {
		part := visitors[:min(len(visitors), maxPendingPerAsk)]
		answers, err := s.entitlements.of(ctx, eventID, part, noForPolls)
		s.logAskFailure(ctx, eventID, err)
		s.keepEntitled(ctx, eventID, part, answers)
		if err != nil {
			s.entitlements.retryLater(eventID, visitors)
			return
		}
		visitors = visitors[len(part):]
	}
}

// keepEntitled has the line keep that users are entitled. If it fails, their later polls cause it again.
func (s *Service) keepEntitled(ctx context.Context, eventID string, visitors []Visitor, answers []Entitlement) {
	var entitled []EntitlementAnswer
	for i, a := range answers {
		if a == Entitled {
			entitled = append(entitled, EntitlementAnswer{UserID: visitors[i].UserID, Entitled: true})
		}
	}
	for page := range slices.Chunk(entitled, maxAnswersPerScript) {
		state, err := s.store.Entitle(ctx, eventID, s.cache.Snapshot(eventID), page)
		if err != nil {
			s.log.WarnContext(ctx, "entitlements not kept", "event", eventID, "count", len(page), "error", err)
			return
		}
		s.cache.Observe(eventID, state)
	}
}

// logAskFailure logs when ticket begins to fail about entitlements, and when it answers again.
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

// beforeGeneral reports whether the sale of an event with a presale is still to open to all.
func (c *LineCache) beforeGeneral(eventID string) bool {
	return readEntry(c, eventID, func(e *lineEntry) bool { return e.known.Sale.isBeforeGeneral(e.lineTime(c.now())) })
}
