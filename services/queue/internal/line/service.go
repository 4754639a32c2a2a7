package line

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"urr.guru/pkg/errs"
)

const (
	// maxClaimsPerScript is the most claims in one call of the store. Redis does nothing else while it
	// runs the call.
	maxClaimsPerScript    = 64
	maxParallelKnownLines = 64 // how many cached lines one batch handles at once
	// maxParallelUnknownLines is how many uncached lines all batches together handle at once.
	maxParallelUnknownLines = 8
)

// Service answers the calls of visitors and operators on lines. It is safe for concurrent use.
type Service struct {
	store     Store
	cache     *LineCache
	seal      Sealer
	events    Directory
	announce  Announcer
	meter     Meter
	rules     Rules
	log       *slog.Logger
	now       func() time.Time
	existence *eventExistenceCache
	unknown   chan struct{} // a semaphore with one element per call in progress for an uncached line

	sales         SaleReader
	saleCalls     singleflight.Group // reads of sale reports of new lines
	openings      singleflight.Group // openings of lines
	idleRefreshes singleflight.Group // reads of the settings of lines that were idle
	salesFailing  atomic.Bool

	entitlements *entitlements
	asksFailing  atomic.Bool
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Cache    *LineCache
	Seal     Sealer
	Events   Directory
	Sales    SaleReader
	Entitled EntitlementSource
	Announce Announcer
	Meter    Meter
	Rules    Rules
	Log      *slog.Logger
	Now      func() time.Time // time.Now except in tests
}

// NewService makes a Service.
func NewService(d Deps) *Service {
	return &Service{
		store: d.Store, cache: d.Cache, seal: d.Seal, events: d.Events, announce: d.Announce, meter: d.Meter, rules: d.Rules, log: d.Log,
		now: d.Now, existence: newEventExistenceCache(d.Now, d.Events.Exists), unknown: make(chan struct{}, maxParallelUnknownLines),
		sales: d.Sales, entitlements: newEntitlements(d.Entitled, d.Meter, d.Now),
	}
}

// Close waits for background calls to the ticket service, for at most half a second.
func (s *Service) Close(context.Context) error {
	s.existence.wait()
	return nil
}

// Check returns each visitor's place or slot, and adds new visitors to the line. The answers have
// the order of the requests. A request that fails does not affect the others.
func (s *Service) Check(ctx context.Context, reqs []PlaceRequest) []PlaceAnswer {
	out := make([]PlaceAnswer, len(reqs))
	s.forEachLine(ctx, len(reqs), func(i int) string { return reqs[i].EventID }, func(eventID string, at []int) error {
		s.cache.RecordContact(eventID)
		s.markInUse(ctx, eventID)
		s.checkInChunks(ctx, eventID, reqs, at, true, out)
		return nil
	}, func(i int, err error) { out[i].Err = err })
	return out
}

// forEachLine groups the indexes of n items by line (eventOf returns an item's event id) and calls
// do for each line in parallel, so that no line waits for another. Lines that are not cached share
// a small semaphore, so that made-up ids cannot delay other lines. If do fails or panics, or ctx
// ends before the semaphore is free, forEachLine calls fail for each item of the line.
func (s *Service) forEachLine(
	ctx context.Context, n int, eventOf func(int) string, do func(eventID string, indexes []int) error, fail func(i int, err error),
) {
	lines := groupByEvent(n, eventOf)
	failAll := func(indexes []int, err error) {
		for _, i := range indexes {
			fail(i, err)
		}
	}
	var known, unknown errgroup.Group
	known.SetLimit(maxParallelKnownLines)
	unknown.SetLimit(maxParallelUnknownLines)
	doSafely := func(eventID string, indexes []int) {
		defer func() { // a panic in another goroutine would end the process
			if p := recover(); p != nil {
				failAll(indexes, errs.FromPanic(p))
			}
		}()
		if err := do(eventID, indexes); err != nil {
			failAll(indexes, err)
		}
	}
	if len(lines) == 1 { // the usual case, since a gateway sends one batch per line
		for eventID, at := range lines {
			if s.cache.findEntry(eventID) != nil {
				doSafely(eventID, at)
				return
			}
		}
	}
	var uncached []string
	for eventID, at := range lines {
		if s.cache.findEntry(eventID) == nil {
			uncached = append(uncached, eventID)
			continue
		}
		known.Go(func() error {
			doSafely(eventID, at)
			return nil
		})
	}
	for _, eventID := range uncached {
		unknown.Go(func() error {
			select {
			case s.unknown <- struct{}{}:
				defer func() { <-s.unknown }()
				doSafely(eventID, lines[eventID])
			case <-ctx.Done():
				failAll(lines[eventID], errs.ErrUnavailable.Wrap(ctx.Err()).WithRetry(time.Second))
			}
			return nil
		})
	}
	_ = unknown.Wait()
	_ = known.Wait()
}

// checkInChunks sends the requests at the given indexes, all for one line, to the store in chunks,
// one after another, so that they keep their order. It writes the answers to out.
func (s *Service) checkInChunks(ctx context.Context, eventID string, reqs []PlaceRequest, indexes []int, join bool, out []PlaceAnswer) {
	if join {
		s.refreshIdleLine(ctx, eventID)
	}
	claims := make([]PlaceClaim, len(indexes))
	for k, i := range indexes {
		claims[k] = s.claimOf(reqs[i], join)
	}
	s.answerEntitlements(ctx, eventID, reqs, indexes, join, claims)
	for from := 0; from < len(indexes); from += maxClaimsPerScript {
		to := min(from+maxClaimsPerScript, len(indexes))
		s.checkChunk(ctx, eventID, reqs, indexes[from:to], claims[from:to], join, out)
	}
}

func (s *Service) checkChunk(
	ctx context.Context, eventID string, reqs []PlaceRequest, indexes []int, claims []PlaceClaim, join bool, out []PlaceAnswer,
) {
	state, outcomes, err := s.checkLine(ctx, eventID, claims, join)
	if err != nil {
		for _, i := range indexes {
			out[i].Err = err
		}
		return
	}
	s.cache.Observe(eventID, state)
	s.askLaterAbout(eventID, reqs, indexes, state, claims, outcomes)
	if join {
		s.cache.RecordContact(eventID) // the line may be new
		s.markInUse(ctx, eventID)
	}
	if state.Exists() && state.SettingsAt == 0 {
		s.readSettingsIfDue(ctx, eventID)
	}
	title := s.readTitle(ctx, eventID)
	var entered int64
	for k, i := range indexes {
		out[i] = s.answerOf(reqs[i], state, outcomes[k], title)
		if outcomes[k].Entered {
			entered++
		}
	}
	s.meter.AddAdmissions(eventID, entered)
}

func (s *Service) checkLine(ctx context.Context, eventID string, claims []PlaceClaim, join bool) (LineState, []ClaimOutcome, error) {
	state, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	if err != nil {
		return LineState{}, nil, err
	}
	if !state.Exists() {
		return s.beginLine(ctx, eventID, claims, join)
	}
	s.cache.Observe(eventID, state)
	if s.saleReopened(ctx, eventID) {
		return s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	}
	return state, outcomes, nil
}

// beginLine creates a missing line if the event exists, and repeats the check. While the ticket
// service does not answer, only visitors with a queue ticket or an entry token of the line cause
// its creation. So they return after a loss of data even then, and a made-up id never gets a line.
// Requests that do not join do not wait for the ticket service: its answer does not affect them.
//
// An event whose sale has ended gets no line. A line that was opened before begins with a recovery
// pause, since its data was lost. A new line has none.
func (s *Service) beginLine(ctx context.Context, eventID string, claims []PlaceClaim, join bool) (LineState, []ClaimOutcome, error) {
	if !join {
		if _, err := s.existence.checkAsync(ctx, eventID); errors.Is(err, ErrEventUnknown) {
			return LineState{}, nil, err
		}
		return LineState{}, make([]ClaimOutcome, len(claims)), nil
	}
	if err := s.existence.check(ctx, eventID); err != nil {
		return LineState{}, nil, err
	}
	_ = s.ensureSale(ctx, eventID, maxNewSaleAge) // without a status the line will admit nobody
	if s.cache.saleStatus(eventID).Ended() {
		return LineState{}, make([]ClaimOutcome, len(claims)), nil
	}
	openErr := s.openNewLine(ctx, eventID)
	if openErr != nil {
		s.log.WarnContext(ctx, "line not opened", "event", eventID, "error", openErr)
	}
	for i := range claims {
		claims[i].Begin = true
	}
	state, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	// openNewLine has failed, so the check has created the line with a recovery pause. End the pause.
	if openErr != nil && err == nil && s.cache.openingPermitted(eventID) {
		if err := s.openLine(ctx, eventID); err != nil {
			s.log.WarnContext(ctx, "line not opened", "event", eventID, "error", err)
		}
	}
	return state, outcomes, err
}

func (s *Service) claimOf(r PlaceRequest, join bool) PlaceClaim {
	c := PlaceClaim{UserID: r.Visitor.UserID, Join: join, Tier1: r.Visitor.Tier1, Entry: r.Entry}
	if r.Ticket != "" {
		if t, ok := s.seal.OpenTicket(r.EventID, r.Visitor.UserID, r.Ticket); ok {
			c.Ticket = &t
		}
	}
	return c
}

func (s *Service) answerOf(r PlaceRequest, state LineState, o ClaimOutcome, title TitleAndArtist) PlaceAnswer {
	switch o.State {
	case Inside:
		return s.holderAnswer(r, state, o, title)
	case Waiting:
		return PlaceAnswer{Place: s.waiterPlace(r, state, o, title)}
	case PassTaken:
		return PlaceAnswer{Err: ErrPassUsed}
	case PassMissing:
		return PlaceAnswer{Err: ErrPassRequired.With("redirectTo", "/vwr/"+r.EventID)}
	case AnswerMissing:
		return PlaceAnswer{Err: errs.ErrEntitlementUnknown.WithRetry(askRetry)}
	case Blocked:
		return PlaceAnswer{Err: ErrBlocked}
	default:
		p := s.basePlace(r.EventID, state, title)
		p.Status = StatusNone
		p.NextPoll = jitter(activePoll)
		return PlaceAnswer{Place: p}
	}
}

func (s *Service) basePlace(eventID string, state LineState, title TitleAndArtist) Place {
	p := Place{
		Sale: state.SaleStatus(), Paused: state.Paused,
		Active: state.Active + state.PrevHolders, Threshold: state.Threshold, QueueSize: state.Waiting, Title: title.Title, Artist: title.Artist,
	}
	if state.BeforeGeneral() {
		p.GeneralOpensAt = state.Sale.OpensAt
	}
	if !state.Exists() {
		p.Threshold, p.Sale = s.rules.Threshold, s.cache.saleStatus(eventID)
	}
	return p
}

// waiterPlace returns the place of a waiter. Until the general sale opens, users with an
// entitlement wait in a set of their own.
func (s *Service) waiterPlace(r PlaceRequest, state LineState, o ClaimOutcome, title TitleAndArtist) Place {
	p := s.basePlace(r.EventID, state, title)
	p.Status = StatusQueued
	p.Ahead, p.Position = o.Ahead, o.Ahead+1
	if o.Entitled && state.BeforeGeneral() {
		p.Entitled, p.QueueSize = true, state.Entitled
	}
	p.QueueSize = max(p.QueueSize, p.Position) // the cached size may be a second old
	p.Behind = p.QueueSize - p.Position
	p.EstimatedWait = s.cache.findOrCreateEntry(r.EventID).estimateWait(p.Position, state, state.opensFor(o.Entitled))
	p.NextPoll = jitter(PollInterval(o.Ahead))
	p.Ticket = s.seal.SealTicket(r.EventID, r.Visitor.UserID, Ticket{Score: o.Score, Epoch: state.Epoch, IssuedAt: state.Now})
	return p
}

// holderAnswer returns the answer to a slot holder. It signs a new entry token if the request has
// none, one of another slot or epoch, or one that is about to expire.
func (s *Service) holderAnswer(r PlaceRequest, state LineState, o ClaimOutcome, title TitleAndArtist) PlaceAnswer {
	now := s.now()
	p := s.basePlace(r.EventID, state, title)
	p.Status, p.NextPoll, p.ExpiresAt = StatusActive, jitter(activePoll), o.End
	e := r.Entry
	if o.Claimed || e == nil || e.SlotID != o.SlotID || e.Epoch != state.Epoch || e.ExpiresAt-now.UnixMilli() < tokenRenewalMargin.Milliseconds() {
		tok, err := s.seal.SignEntryToken(r.EventID, r.Visitor.UserID, o.SlotID, state.Epoch, o.End, now)
		if err != nil {
			return PlaceAnswer{Err: err}
		}
		p.EntryToken = tok
	}
	if o.Claimed {
		s.announce.Announce(Admission{EventID: r.EventID, UserID: r.Visitor.UserID, EntryToken: p.EntryToken, At: now})
	}
	return PlaceAnswer{Place: p}
}

// groupByEvent groups the indexes of n items by the event id that eventOf returns, in order.
func groupByEvent(n int, eventOf func(int) string) map[string][]int {
	groups := make(map[string][]int)
	for i := range n {
		id := eventOf(i)
		groups[id] = append(groups[id], i)
	}
	return groups
}
