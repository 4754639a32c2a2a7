package line

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// perScript bounds the claims of one call of the store, which is one step: Redis does nothing else meanwhile.
	perScript = 64
	// eventsAtOnce bounds the lines asked at once for one batch.
	eventsAtOnce = 8
)

// Service answers visitors and operators. It is safe for concurrent use.
type Service struct {
	store    Store
	book     *Book
	seal     Sealer
	events   Directory
	announce Announcer
	meter    Meter
	rules    Rules
	log      *slog.Logger
	now      func() time.Time
	roll     *roll
}

// Deps are what a Service works with.
type Deps struct {
	Store    Store
	Book     *Book
	Seal     Sealer
	Events   Directory
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
		store: d.Store, book: d.Book, seal: d.Seal, events: d.Events, announce: d.Announce, meter: d.Meter, rules: d.Rules, log: d.Log,
		now: d.Now, roll: newRoll(d.Now, d.Events.Exists),
	}
}

// Check finds each visitor's place, or gives one. Answers come by position; one item's failure is its own.
func (s *Service) Check(ctx context.Context, reqs []Request) []Answer {
	out := make([]Answer, len(reqs))
	s.ask(ctx, reqs, all(len(reqs)), true, out)
	return out
}

// ask puts the requests at the given positions to the store: events side by side, each in pieces, one after the other, so that those of
// one event keep their order.
func (s *Service) ask(ctx context.Context, reqs []Request, positions []int, join bool, out []Answer) {
	var g errgroup.Group
	g.SetLimit(eventsAtOnce)
	for eventID, at := range byEvent(positions, func(i int) string { return reqs[i].EventID }) {
		s.book.Contact(eventID)
		g.Go(func() error {
			for piece := range slices.Chunk(at, perScript) {
				s.askLine(ctx, eventID, reqs, piece, join, out)
			}
			return nil
		})
	}
	_ = g.Wait()
}

func (s *Service) askLine(ctx context.Context, eventID string, reqs []Request, positions []int, join bool, out []Answer) {
	claims := make([]Claim, len(positions))
	for k, i := range positions {
		claims[k] = s.claim(reqs[i], join)
	}
	state, outcomes, err := s.store.Check(ctx, eventID, s.book.Recall(eventID), claims)
	if err == nil && !state.Exists() {
		state, outcomes, err = s.begin(ctx, eventID, claims)
	}
	if err != nil {
		for _, i := range positions {
			out[i].Err = err
		}
		return
	}
	s.book.Learn(eventID, state)
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

// begin asks once more for a line that is not there, if the event exists. While ticket does not say, nobody begins it but by a ticket or
// token of its own (which the store looks at): so a crowd that Redis lost comes back without ticket, and a made-up id never gets a line.
func (s *Service) begin(ctx context.Context, eventID string, claims []Claim) (State, []Outcome, error) {
	if err := s.roll.has(ctx, eventID); err != nil {
		return State{}, nil, err
	}
	for i := range claims {
		claims[i].Begin = claims[i].Join
	}
	return s.store.Check(ctx, eventID, s.book.Recall(eventID), claims)
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
		p := s.place(state, info)
		p.Status = StatusNone
		p.NextPoll = spread(activePoll)
		return Answer{Place: p}
	}
}

// place has what everybody of a line is told alike.
func (s *Service) place(state State, info Info) Place {
	p := Place{
		Active: state.Active + state.Old, Threshold: state.Threshold, QueueSize: state.Waiting, Title: info.Title, Artist: info.Artist,
	}
	if !state.Exists() {
		p.Threshold = s.rules.Threshold
	}
	return p
}

func (s *Service) waiting(r Request, state State, ahead, score int64, info Info) Place {
	p := s.place(state, info)
	p.Status = StatusQueued
	p.Ahead, p.Position = ahead, ahead+1
	p.QueueSize = max(p.QueueSize, p.Position) // the size may be a second older than the place
	p.Behind = p.QueueSize - p.Position
	p.EstimatedWait = s.book.page(r.EventID).estimate(p.Position, state)
	p.NextPoll = spread(Poll(ahead))
	p.Ticket = s.seal.Ticket(r.EventID, r.Caller.UserID, Ticket{Score: score, Epoch: state.Epoch, IssuedAt: state.Now})
	return p
}

// inside answers a holder, with a token if theirs is missing, of another slot or epoch, or about to end.
func (s *Service) inside(r Request, state State, o Outcome, info Info) Answer {
	now := s.now()
	p := s.place(state, info)
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

// byEvent groups positions, keeping their order.
func byEvent(positions []int, event func(int) string) map[string][]int {
	groups := make(map[string][]int)
	for _, i := range positions {
		id := event(i)
		groups[id] = append(groups[id], i)
	}
	return groups
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
