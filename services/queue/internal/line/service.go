package line

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"urr.guru/pkg/errs"
)

const (
	// perScript bounds the claims of one call of the store, which is one step: Redis does nothing else meanwhile.
	perScript = 64
	// knownAtOnce bounds the lines of one batch that are asked at once.
	knownAtOnce = 64
	// unknownAtOnce bounds the lines asked at once that this replica does not know, in all batches
	// together.
	unknownAtOnce = 8
)

// Service answers visitors and operators. It is safe for concurrent use.
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
	unknown   chan struct{} // places of those who ask about lines that this replica does not know

	sales                 Sales
	asking                singleflight.Group // about the sales of lines that begin
	openings              singleflight.Group // of lines
	catchUps              singleflight.Group // with the settings of lines
	salesUnsupportedSince atomic.Int64       // ns since when ticket answers that it does not tell; 0 = it does
	salesFailing          atomic.Bool
}

// Deps are what a Service works with.
type Deps struct {
	Store    Store
	Cache    *LineCache
	Seal     Sealer
	Events   Directory
	Sales    Sales
	Announce Announcer
	Meter    Meter
	Rules    Rules
	Log      *slog.Logger
	// Now is time.Now but in tests.
	Now func() time.Time
}

// NewService makes one.
func NewService(d Deps) *Service {
	return &Service{
		store: d.Store, cache: d.Cache, seal: d.Seal, events: d.Events, announce: d.Announce, meter: d.Meter, rules: d.Rules, log: d.Log,
		now: d.Now, existence: newEventExistenceCache(d.Now, d.Events.Exists), unknown: make(chan struct{}, unknownAtOnce),
		sales: d.Sales,
	}
}

// Close waits for questions to ticket that run in the background, half a second at most.
func (s *Service) Close(context.Context) error {
	s.existence.wait()
	return nil
}

// Check finds each visitor's place, or gives one. Answers come by position; one item's failure is its own.
func (s *Service) Check(ctx context.Context, reqs []Request) []Answer {
	out := make([]Answer, len(reqs))
	s.perLine(ctx, len(reqs), func(i int) string { return reqs[i].EventID }, func(eventID string, at []int, err error) {
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
			return
		}
		s.cache.Contact(eventID)
		s.askLine(ctx, eventID, reqs, at, true, out)
	})
	return out
}

// perLine lets do handle n items line by line, side by side, so that no line waits for another.
// Those of lines that this replica does not know have few places, which all calls share: anybody
// can make up ids, and no number of them may hold the others up. do gets an error when ctx ends
// before there is one.
func (s *Service) perLine(ctx context.Context, n int, event func(int) string, do func(eventID string, positions []int, err error)) {
	lines := byEvent(n, event)
	var known, unknown errgroup.Group
	known.SetLimit(knownAtOnce)
	unknown.SetLimit(unknownAtOnce)
	ask := func(eventID string, positions []int) {
		defer func() { // in a goroutine of its own a panic would end the process
			if p := recover(); p != nil {
				do(eventID, positions, errs.ErrInternal.Wrap(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
			}
		}()
		do(eventID, positions, nil)
	}
	var later []string
	for eventID, at := range lines {
		if s.cache.find(eventID) == nil {
			later = append(later, eventID)
			continue
		}
		known.Go(func() error {
			ask(eventID, at)
			return nil
		})
	}
	for _, eventID := range later {
		unknown.Go(func() error {
			select {
			case s.unknown <- struct{}{}:
				defer func() { <-s.unknown }()
				ask(eventID, lines[eventID])
			case <-ctx.Done():
				do(eventID, lines[eventID], errs.ErrUnavailable.Wrap(ctx.Err()).WithRetry(time.Second))
			}
			return nil
		})
	}
	_ = unknown.Wait()
	_ = known.Wait()
}

// askLine puts the requests at the given positions to the store, all of one line, in pieces, one
// after the other, so that they keep their order.
func (s *Service) askLine(ctx context.Context, eventID string, reqs []Request, positions []int, join bool, out []Answer) {
	for piece := range slices.Chunk(positions, perScript) {
		s.askPiece(ctx, eventID, reqs, piece, join, out)
	}
}

func (s *Service) askPiece(ctx context.Context, eventID string, reqs []Request, positions []int, join bool, out []Answer) {
	claims := make([]Claim, len(positions))
	for k, i := range positions {
		claims[k] = s.claim(reqs[i], join)
	}
	if join {
		s.catchUp(ctx, eventID)
	}
	state, outcomes, err := s.checkLine(ctx, eventID, claims, join)
	if err != nil {
		for _, i := range positions {
			out[i].Err = err
		}
		return
	}
	s.cache.Observe(eventID, state)
	if state.Exists() && state.SettingsAt == 0 {
		s.readSettings(ctx, eventID)
	}
	info := s.info(ctx, eventID)
	var entered int64
	for k, i := range positions {
		out[i] = s.answer(reqs[i], state, outcomes[k], info)
		if outcomes[k].Entered {
			entered++
		}
	}
	s.meter.Admitted(eventID, entered)
}

func (s *Service) checkLine(ctx context.Context, eventID string, claims []Claim, join bool) (State, []Outcome, error) {
	state, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	if err != nil {
		return State{}, nil, err
	}
	if !state.Exists() {
		return s.begin(ctx, eventID, claims, join)
	}
	s.cache.Observe(eventID, state)
	if s.reopened(ctx, eventID) {
		return s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	}
	return state, outcomes, nil
}

// begin asks once more for a line that is not there, if the event exists. While ticket does not say, nobody begins it but by a ticket or
// token of its own (which the store queries at): so a crowd that Redis lost comes back without ticket, and a made-up id never gets a line.
// Who does not join waits for no answer, since it would change nothing.
//
// A sale that has ended gets no line any more. A line that was never opened is opened; any other begins with a recovery, since its data
// was lost.
func (s *Service) begin(ctx context.Context, eventID string, claims []Claim, join bool) (State, []Outcome, error) {
	if !join {
		if _, err := s.existence.hint(ctx, eventID); errors.Is(err, ErrEventUnknown) {
			return State{}, nil, err
		}
		return State{}, make([]Outcome, len(claims)), nil
	}
	if err := s.existence.has(ctx, eventID); err != nil {
		return State{}, nil, err
	}
	_ = s.ensureSale(ctx, eventID) // the line admits nobody before more is known
	if s.cache.sale(eventID).Over() {
		return State{}, make([]Outcome, len(claims)), nil
	}
	failed := s.open(ctx, eventID)
	if failed != nil {
		s.log.WarnContext(ctx, "line not opened", "event", eventID, "error", failed)
	}
	for i := range claims {
		claims[i].Begin = true
	}
	state, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
	// A line that was not opened has just begun with a recovery. That ends at once if ticket has recorded that this replica opens it.
	if failed != nil && err == nil && s.cache.openingPermitted(eventID) {
		if err := s.openLine(ctx, eventID); err != nil {
			s.log.WarnContext(ctx, "line not opened", "event", eventID, "error", err)
		}
	}
	return state, outcomes, err
}

func (s *Service) claim(r Request, join bool) Claim {
	c := Claim{UserID: r.Caller.UserID, Join: join, Tier1: r.Caller.Tier1, Entry: r.Entry}
	if r.Ticket != "" {
		if t, ok := s.seal.OpenTicket(r.EventID, r.Caller.UserID, r.Ticket); ok {
			c.Ticket = &t
		}
	}
	return c
}

// answer turns an outcome into what the visitor is told.
func (s *Service) answer(r Request, state State, o Outcome, info Info) Answer {
	switch o.Standing {
	case Inside:
		return s.inside(r, state, o, info)
	case Waiting:
		return Answer{Place: s.waiting(r, state, o.Ahead, o.Score, info)}
	case PassTaken:
		return Answer{Err: ErrPassUsed}
	case PassMissing:
		return Answer{Err: ErrPassRequired.With("redirectTo", "/vwr/"+r.EventID)}
	case Blocked:
		return Answer{Err: ErrBlocked}
	default:
		p := s.place(r.EventID, state, info)
		p.Status = StatusNone
		p.NextPoll = spread(activePoll)
		return Answer{Place: p}
	}
}

// place has what everybody of a line is told alike.
func (s *Service) place(eventID string, state State, info Info) Place {
	p := Place{
		Sale:   state.SaleStatus(),
		Active: state.Active + state.Old, Threshold: state.Threshold, QueueSize: state.Waiting, Title: info.Title, Artist: info.Artist,
	}
	if !state.Exists() {
		p.Threshold, p.Sale = s.rules.Threshold, s.cache.sale(eventID)
	}
	return p
}

func (s *Service) waiting(r Request, state State, ahead, score int64, info Info) Place {
	p := s.place(r.EventID, state, info)
	p.Status = StatusQueued
	p.Ahead, p.Position = ahead, ahead+1
	p.QueueSize = max(p.QueueSize, p.Position) // the size may be a second older than the place
	p.Behind = p.QueueSize - p.Position
	p.EstimatedWait = s.cache.entry(r.EventID).estimate(p.Position, state)
	p.NextPoll = spread(Poll(ahead))
	p.Ticket = s.seal.Ticket(r.EventID, r.Caller.UserID, Ticket{Score: score, Epoch: state.Epoch, IssuedAt: state.Now})
	return p
}

// inside answers a holder, with a token if theirs is missing, of another slot or epoch, or about to end.
func (s *Service) inside(r Request, state State, o Outcome, info Info) Answer {
	now := s.now()
	p := s.place(r.EventID, state, info)
	p.Status, p.NextPoll, p.ExpiresAt = StatusActive, spread(activePoll), o.End
	e := r.Entry
	if o.Claimed || e == nil || e.SlotID != o.SlotID || e.Epoch != state.Epoch || e.ExpiresAt-now.UnixMilli() < renewBelow.Milliseconds() {
		tok, err := s.seal.Entry(r.EventID, r.Caller.UserID, o.SlotID, state.Epoch, o.End, now)
		if err != nil {
			return Answer{Err: err}
		}
		p.EntryToken = tok
	}
	if o.Claimed {
		s.announce.Announce(Admission{EventID: r.EventID, UserID: r.Caller.UserID, EntryToken: p.EntryToken, At: now})
	}
	return Answer{Place: p}
}

// byEvent groups n positions, keeping their order.
func byEvent(n int, event func(int) string) map[string][]int {
	groups := make(map[string][]int)
	for i := range n {
		id := event(i)
		groups[id] = append(groups[id], i)
	}
	return groups
}
