package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
)

// Settings that did not change are read again after settingsFor; ones that are missing, after settingsRetry.
const (
	settingsFor     = 30 * time.Second
	settingsRetry   = time.Second
	settingsTimeout = 500 * time.Millisecond
)

// Overview is what an operator sees of a line.
type Overview struct {
	EventID                            string
	Waiting, Parked, Active, Threshold int64
	AdmittedPerMinute                  float64
	Epoch                              int64
	// Paused: nobody is being admitted, by an operator's will or because the line recovers.
	Paused bool
}

// Load is how full a line is, for tier 1.
type Load struct{ Waiting, Active, Parked, Arrived int64 }

// Open reads a line's settings, and opens it if it was never opened. It may be repeated.
//
// The previous release of the gateway calls it after each change of an event, so where the sale stands is asked for whatever was said
// before.
func (s *Service) Open(ctx context.Context, eventID string) error {
	if err := s.open(ctx, eventID); err != nil {
		return err
	}
	s.cache.Contact(eventID)
	s.askAnew(ctx, eventID)
	return s.refresh(ctx, eventID)
}

func (s *Service) askAnew(ctx context.Context, eventID string) {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	if err := s.askSales(ctx, []string{eventID}); err != nil {
		s.log.WarnContext(ctx, "where a sale stands is not known", "event", eventID, "error", err)
	}
}

// SetThreshold writes the setting where it is durable, then into the line. When it fails the setting may be in force already; repeating it
// settles that.
func (s *Service) SetThreshold(ctx context.Context, eventID string, threshold int64) (Overview, error) {
	if _, err := s.events.Settings(ctx, eventID); err != nil { // to put is to make the id known, and a mistyped one must not be
		return Overview{}, err
	}
	if err := s.events.PutThreshold(ctx, eventID, threshold); err != nil {
		return Overview{}, err
	}
	failpoint.Hit("queue.threshold.after_ticket") // every replica reads the settings again within 30 s
	if err := s.refresh(ctx, eventID); err != nil {
		return Overview{}, err
	}
	return s.Line(ctx, eventID)
}

// Line is the state of an event's line. A line that nobody asked for yet has its settings only.
func (s *Service) Line(ctx context.Context, eventID string) (Overview, error) {
	st, err := s.peek(ctx, eventID)
	if err != nil {
		return Overview{}, err
	}
	if !st.Exists() {
		return s.unborn(ctx, eventID)
	}
	p := s.cache.entry(eventID)
	p.mu.Lock()
	rate := p.pace.perMinute()
	p.mu.Unlock()
	return Overview{
		EventID: eventID, Waiting: st.Waiting, Parked: st.Parked, Active: st.Active + st.Old, Threshold: st.Threshold,
		AdmittedPerMinute: rate, Epoch: st.Epoch, Paused: !st.Admitting(),
	}, nil
}

func (s *Service) unborn(ctx context.Context, eventID string) (Overview, error) {
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{EventID: eventID, Threshold: s.rules.Threshold, Paused: set.Paused}
	if set.Threshold != nil {
		o.Threshold = *set.Threshold
	}
	return o, nil
}

// Load is how full the line is; all zero when there is none.
func (s *Service) Load(ctx context.Context, eventID string) (Load, error) {
	st, err := s.peek(ctx, eventID)
	if err != nil {
		return Load{}, err
	}
	return Load{Waiting: st.Waiting, Active: st.Active + st.Old, Parked: st.Parked, Arrived: st.Arrived}, nil
}

// Closed reports whether the event's sale has ended; ErrEventUnknown when there is no such event. Ticket is asked, not the line: tier 1 has
// rooms for events whose line nobody has come to yet.
//
// From then on every replica knows where the sale stands, for as long as tier 1 goes on asking.
func (s *Service) Closed(ctx context.Context, eventID string) (bool, error) {
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if s.cache.FirstContact(eventID) {
		if err := s.store.Add(ctx, eventID); err != nil {
			s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err) // the next tick does it
		}
		_ = s.ensureSale(ctx, eventID) // it is asked about again with all others
	}
	return set.Closed, nil
}

// Watch hands out epochs, pauses and where sales stand until ctx ends.
func (s *Service) Watch(ctx context.Context, send func(lines []Recovery, snapshot bool) error) error {
	return s.cache.Watch(ctx, send)
}

// refresh reads a line's durable settings into it. Two readings may cross: the one that began later knows more and wins, so the line is
// asked for its time first.
//
// A line admits as soon as its settings are there, so where its sale stands has to be known before: a
// new line waits for both. A ticket that does not tell at all is waited for in vain, and not. No line
// admits before ticket has recorded that it was opened.
func (s *Service) refresh(ctx context.Context, eventID string) error {
	st, err := s.peek(ctx, eventID)
	if err != nil || !st.Exists() {
		return err
	}
	if err := s.ensureSale(ctx, eventID); err != nil && st.SettingsAt == 0 && !s.cache.saleIsKnown(eventID) {
		return fmt.Errorf("where the sale of %s stands: %w", eventID, err)
	}
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", eventID, err)
	}
	if set.NeverOpened { // begun by the previous release, or while ticket did not answer
		if _, err := s.events.MarkOpened(ctx, eventID); err != nil && st.SettingsAt == 0 {
			return fmt.Errorf("line of %s not marked as opened: %w", eventID, err)
		}
	}
	st, err = s.store.Apply(ctx, eventID, s.cache.Snapshot(eventID), set, st.Now)
	if err != nil {
		return err
	}
	s.cache.Observe(eventID, st)
	s.cache.follow(eventID)
	return nil
}

// readSettings is refresh for workers and first visitors: not more often than makes sense, bounded, and a failure is only logged: until
// the settings of a new line are there nobody is admitted, and an old one goes on with what it has.
func (s *Service) readSettings(ctx context.Context, eventID string) {
	p := s.cache.entry(eventID)
	p.mu.Lock()
	now, st := s.now(), p.state
	wait := settingsRetry
	if st.SettingsAt > 0 {
		wait = settingsFor
	}
	if !st.Exists() || now.Sub(p.settingsTriedAt) < wait {
		p.mu.Unlock()
		return
	}
	p.settingsTriedAt = now
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	if err := s.refresh(ctx, eventID); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "line settings not read", "event", eventID, "unread", st.SettingsAt == 0, "error", err)
		p.mu.Lock()
		p.settingsTriedAt = now.Add(settingsRetry - settingsFor)
		p.mu.Unlock()
	}
}

// catchUp reads the settings of a line before visitors are admitted to it, if this replica has not followed them for a while, as when
// nobody came to the line. A crowd that comes together waits for one reading; one that fails leaves the settings as they are.
func (s *Service) catchUp(ctx context.Context, eventID string) {
	if s.cache.follows(eventID) {
		return
	}
	_, _, _ = s.catchUps.Do(eventID, func() (any, error) {
		if !s.cache.follows(eventID) {
			s.readSettings(context.WithoutCancel(ctx), eventID)
			s.cache.follow(eventID)
		}
		return nil, nil //nolint:nilnil // there is nothing to share
	})
}

// Event titles are read again after infoFor, an unknown event's after infoRetry; a visitor waits for them at most infoTimeout.
const (
	infoFor     = 60 * time.Second
	infoRetry   = 5 * time.Second
	infoTimeout = 150 * time.Millisecond
)

// info is the event's title, empty while it cannot be had: the line works without. Whoever finds it old reads it, the others go on with
// what there is.
func (s *Service) info(ctx context.Context, eventID string) Info {
	p := s.cache.find(eventID)
	if p == nil { // there is no line
		return Info{}
	}
	p.mu.Lock()
	info, now := p.info, s.now()
	wait := infoRetry
	if p.infoKnown {
		wait = infoFor
	}
	if !p.infoAt.IsZero() && now.Sub(p.infoAt) < wait {
		p.mu.Unlock()
		return info
	}
	p.infoAt = now
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	got, err := s.events.Info(ctx, eventID)
	switch {
	case err == nil:
		info = got
	case errors.Is(err, errs.ErrEventNotFound): // a promotion or a campaign: it has no title here
		info = Info{}
	default:
		s.log.WarnContext(ctx, "event title not read", "event", eventID, "error", err)
		return info
	}
	p.mu.Lock()
	p.info, p.infoKnown = info, true
	p.mu.Unlock()
	return info
}
