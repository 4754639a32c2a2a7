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

// LineLoad counts the visitors of a line. Tier 1 (vwr) reads it, to limit how many visitors it lets
// through. Visitors who wait for the general sale are not counted before it opens: they would keep
// out users with an entitlement to the presale.
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
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if s.cache.RecordEventContact(eventID) {
		if err := s.store.AddEvents(ctx, eventID); err != nil {
			// The next tick registers the event.
			s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err)
		}
		_ = s.ensureSale(ctx, eventID, maxSaleAge) // the next refresh of all sales retries it
	}
	return settings.Closed, nil
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
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return errors.Join(fmt.Errorf("settings of %s: %w", eventID, err), s.restoreBlocked(ctx, eventID, st))
	}
	if settings.NeverOpened { // the line was created while ticket did not answer
		if _, err := s.events.MarkOpened(ctx, eventID); err != nil && st.SettingsAt == 0 {
			return fmt.Errorf("line of %s not marked as opened: %w", eventID, err)
		}
	}
	applied, err := s.store.ApplySettings(ctx, eventID, s.cache.Snapshot(eventID), settings, st.Now)
	if err != nil {
		return err
	}
	s.cache.Observe(eventID, applied)
	s.cache.upsertEntry(eventID, func(e *lineEntry) { e.lastAct = max(e.lastAct, settings.Act) })
	if applied.SettingsAt == st.Now { // else the line has settings that were read later
		s.cache.keepBlocked(eventID, applied.Epoch, settings.Blocked)
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
	entry := s.cache.findOrCreateEntry(eventID)
	entry.mu.Lock()
	now, st := s.now(), entry.state
	wait := settingsRetryInterval
	if st.SettingsAt > 0 {
		wait = settingsTTL
	}
	if !st.Exists() || now.Sub(entry.settingsTriedAt) < wait {
		entry.mu.Unlock()
		return
	}
	entry.settingsTriedAt = now
	entry.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	if err := s.refreshSettings(ctx, eventID); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "line settings not read", "event", eventID, "unread", st.SettingsAt == 0, "error", err)
		entry.mu.Lock()
		entry.settingsTriedAt = now.Add(settingsRetryInterval - wait) // due soon
		entry.mu.Unlock()
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
			_ = s.ensureSale(ctx, eventID, maxNewSaleAge) // it tells whether the settings have changed
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

// readTitle returns the event's title and artist from the cache, or from ticket if they have
// expired. Both are empty while they cannot be read, since the line works without them.
func (s *Service) readTitle(ctx context.Context, eventID string) TitleAndArtist {
	entry := s.cache.findEntry(eventID)
	if entry == nil { // no line
		return TitleAndArtist{}
	}
	entry.mu.Lock()
	title, now := entry.title, s.now()
	wait := titleRetryInterval
	if entry.titleKnown {
		wait = titleTTL
	}
	if !entry.titleTriedAt.IsZero() && now.Sub(entry.titleTriedAt) < wait {
		entry.mu.Unlock()
		return title
	}
	entry.titleTriedAt = now
	entry.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, titleTimeout)
	defer cancel()
	fresh, err := s.events.TitleAndArtist(ctx, eventID)
	// A promotion or a campaign has no title.
	if err != nil && !errors.Is(err, errs.ErrEventNotFound) {
		s.log.WarnContext(ctx, "event title not read", "event", eventID, "error", err)
		return title
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.title, entry.titleKnown = fresh, true
	return fresh
}
