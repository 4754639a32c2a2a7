package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/errs"
)

// Known settings are read again after settingsTTL, missing ones after settingsRetryInterval.
const (
	settingsTTL           = 30 * time.Second
	settingsRetryInterval = time.Second
	settingsTimeout       = 500 * time.Millisecond
)

// LineLoad counts the visitors of a line. Tier 1 (vwr) reads it, to let through no more than fit. Those
// who wait for the sale to open to all do not count until then: they would keep out users with an
// entitlement to the presale.
type LineLoad struct{ Waiting, Active, Parked, Arrived int64 }

// ReadLoad returns the line's load; all zero when there is no line. It reads Redis, not the cache,
// since tier 1 compares the answers of several replicas, whose cached states differ in age.
func (s *Service) ReadLoad(ctx context.Context, eventID string) (LineLoad, error) {
	st, err := s.readState(ctx, eventID)
	if err != nil {
		return LineLoad{}, err
	}
	return LineLoad{Waiting: st.Waiting - st.WaitingGeneral(), Active: st.Active + st.Old, Parked: st.Parked, Arrived: st.Arrived}, nil
}

// SaleClosed asks ticket whether the event's sale has ended. It serves tier 1, which also has rooms
// for events without a line. It fails with ErrEventUnknown when there is no such event. While tier
// 1 keeps calling, every replica tracks the sale status of the event.
func (s *Service) SaleClosed(ctx context.Context, eventID string) (bool, error) {
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if s.cache.RecordEventContact(eventID) {
		if err := s.store.AddEvents(ctx, eventID); err != nil {
			// The next tick registers it.
			s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err)
		}
		_ = s.ensureSale(ctx, eventID, maxSaleAge) // the next refresh of all sales retries it
	}
	return set.Closed, nil
}

func (s *Service) WatchLines(ctx context.Context, send func(lines []LineUpdate, snapshot bool) error) error {
	return s.cache.Watch(ctx, send)
}

// refreshSettings reads a line's durable settings from ticket and stores them in the line. It reads
// the line's time first: of two concurrent reads, the line keeps the one that began later.
//
// A line admits as soon as it has settings. So a new line gets them only when its sale status is
// known, and when ticket has recorded that the line was opened.
func (s *Service) refreshSettings(ctx context.Context, eventID string) error {
	st, err := s.readState(ctx, eventID)
	if err != nil || !st.Exists() {
		return err
	}
	if err := s.ensureSale(ctx, eventID, maxSaleAge); err != nil && st.SettingsAt == 0 && !s.cache.saleIsKnown(eventID) {
		return fmt.Errorf("sale status of %s: %w", eventID, err)
	}
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return errors.Join(fmt.Errorf("settings of %s: %w", eventID, err), s.restoreBlocked(ctx, eventID, st))
	}
	if set.NeverOpened { // the line was created while ticket did not answer
		if _, err := s.events.MarkOpened(ctx, eventID); err != nil && st.SettingsAt == 0 {
			return fmt.Errorf("line of %s not marked as opened: %w", eventID, err)
		}
	}
	applied, err := s.store.ApplySettings(ctx, eventID, s.cache.Snapshot(eventID), set, st.Now)
	if err != nil {
		return err
	}
	s.cache.Observe(eventID, applied)
	s.cache.upsertEntry(eventID, func(e *lineEntry) { e.lastAct = max(e.lastAct, set.Act) })
	if applied.SettingsAt == st.Now { // else the line has settings that were read later
		s.cache.keepBlocked(eventID, applied.Epoch, set.Blocked)
	}
	if applied.Threshold != st.Threshold || applied.Paused != st.Paused {
		s.cache.markFiguresChanged(eventID)
	}
	s.cache.markSettingsCurrent(eventID)
	return nil
}

// restoreBlocked blocks the users whom this replica knows to be blocked, if the line has lost them
// while ticket does not answer. (Calls of the store restore the other settings from KnownState.) It
// has its own timeout, since the wait for ticket may have used up that of ctx.
func (s *Service) restoreBlocked(ctx context.Context, eventID string, st LineState) error {
	users := s.cache.lostBlocked(eventID, st.Epoch)
	if len(users) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settingsTimeout)
	defer cancel()
	blocked, err := s.store.Block(ctx, eventID, s.cache.Snapshot(eventID), users)
	if err != nil {
		return err
	}
	s.cache.Observe(eventID, blocked)
	s.cache.keepBlocked(eventID, blocked.Epoch, users)
	return nil
}

// readSettingsIfDue calls refreshSettings if the settings are due to be read, with a timeout. A
// failure is only logged: the line then keeps its settings; a line that has none yet admits nobody.
func (s *Service) readSettingsIfDue(ctx context.Context, eventID string) {
	p := s.cache.findOrCreateEntry(eventID)
	p.mu.Lock()
	now, st := s.now(), p.state
	wait := settingsRetryInterval
	if st.SettingsAt > 0 {
		wait = settingsTTL
	}
	if !st.Exists() || now.Sub(p.settingsTriedAt) < wait {
		p.mu.Unlock()
		return
	}
	p.settingsTriedAt = now
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	if err := s.refreshSettings(ctx, eventID); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "line settings not read", "event", eventID, "unread", st.SettingsAt == 0, "error", err)
		p.mu.Lock()
		p.settingsTriedAt = now.Add(settingsRetryInterval - wait) // due after settingsRetryInterval
		p.mu.Unlock()
	}
}

// refreshIdleLine reads the settings and the sale status of a line that was idle, before it admits
// visitors. Concurrent calls share one read. If the read fails, the line keeps its settings.
func (s *Service) refreshIdleLine(ctx context.Context, eventID string) {
	if s.cache.settingsCurrent(eventID) {
		return
	}
	_, _, _ = s.idleRefreshes.Do(eventID, func() (any, error) {
		if !s.cache.settingsCurrent(eventID) {
			_ = s.ensureSale(ctx, eventID, maxNewSaleAge) // the report tells whether the settings have changed; after a failure the line keeps both
			s.readSettingsIfDue(context.WithoutCancel(ctx), eventID)
			s.cache.markSettingsCurrent(eventID)
		}
		return nil, nil //nolint:nilnil // there is nothing to share
	})
}

// Known titles are read again after titleTTL, missing ones after titleRetryInterval. A visitor waits
// for a title at most titleTimeout.
const (
	titleTTL           = 60 * time.Second
	titleRetryInterval = 5 * time.Second
	titleTimeout       = 150 * time.Millisecond
)

// readTitle returns the event's title and artist from the cache, or from ticket if they have expired.
// They are empty while they cannot be read, since the line works without them.
func (s *Service) readTitle(ctx context.Context, eventID string) TitleAndArtist {
	p := s.cache.findEntry(eventID)
	if p == nil { // no line
		return TitleAndArtist{}
	}
	p.mu.Lock()
	title, now := p.title, s.now()
	wait := titleRetryInterval
	if p.titleKnown {
		wait = titleTTL
	}
	if !p.titleTriedAt.IsZero() && now.Sub(p.titleTriedAt) < wait {
		p.mu.Unlock()
		return title
	}
	p.titleTriedAt = now
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, titleTimeout)
	defer cancel()
	got, err := s.events.TitleAndArtist(ctx, eventID)
	// A promotion or a campaign has no title.
	if err != nil && !errors.Is(err, errs.ErrEventNotFound) {
		s.log.WarnContext(ctx, "event title not read", "event", eventID, "error", err)
		return title
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title, p.titleKnown = got, true
	return got
}
