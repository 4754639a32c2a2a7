package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/errs"
)

// Settings are read again after settingsTTL; a failed read is repeated after settingsRetryInterval.
const (
	settingsTTL           = 30 * time.Second
	settingsRetryInterval = time.Second
	settingsTimeout       = 500 * time.Millisecond
)

// LineLoad counts the visitors of a line. The vwr service (tier 1) reads it, to limit how many
// visitors it lets through. Before the general sale opens, it leaves out the visitors who wait for
// that: they would keep out users with an entitlement to the presale.
type LineLoad struct{ Waiting, Active, Parked, Arrived int64 }

// ReadLoad returns the line's load; all zero if there is no line. It reads Redis, not the cache:
// the vwr service compares answers of several replicas, whose cached states differ in age.
func (s *Service) ReadLoad(ctx context.Context, eventID string) (LineLoad, error) {
	st, err := s.readState(ctx, eventID)
	if err != nil {
		return LineLoad{}, err
	}
	return LineLoad{Waiting: st.Waiting - st.WaitingGeneral(), Active: st.Active + st.PrevHolders, Parked: st.Parked, Arrived: st.Arrived}, nil
}

// SaleClosed asks the ticket service whether the event's sale has ended. The vwr service calls it,
// also for events without a line; while it keeps calling, every replica tracks the status of the
// sale. SaleClosed fails with ErrEventUnknown when there is no such event.
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
		_ = s.ensureSale(ctx, eventID, maxSaleAge) // RefreshSales retries it
	}
	return settings.Closed, nil
}

func (s *Service) WatchLines(ctx context.Context, send func(lines []LineUpdate, snapshot bool) error) error {
	return s.cache.Watch(ctx, send)
}

// refreshSettings copies a line's durable settings from the ticket service to the line. It reads
// the line's time first: of two concurrent reads, the line keeps the one that began later.
//
// A line admits visitors as soon as it has settings. So a new line gets them only when its sale
// status is known, and when the ticket service has recorded that the line was opened.
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
	if settings.NeverOpened { // the ticket service did not answer when the line was created
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
	if applied.SettingsAt == st.Now { // else the line already has later settings
		s.cache.keepBlocked(eventID, applied.Epoch, settings.Blocked)
	}
	if applied.Threshold != st.Threshold || applied.Paused != st.Paused {
		s.cache.markFiguresChanged(eventID)
	}
	s.cache.markSettingsCurrent(eventID)
	return nil
}

// restoreBlocked blocks the users whom this replica has cached as blocked, if the line has lost
// them and the ticket service does not answer. (Every call of the store restores the other
// settings.) It has its own timeout, since the wait for the ticket service may have used up ctx.
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

// readSettingsIfDue calls refreshSettings, with a timeout, if the settings are due to be read.
// After a failure, which is only logged, the line keeps its settings; without any it admits nobody.
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
		entry.settingsTriedAt = now.Add(settingsRetryInterval - wait) // so that the next read is due soon
		entry.mu.Unlock()
	}
}

// refreshIdleLine reads the settings and the sale status of a line that was not in use, before it
// admits visitors. Concurrent calls share a read. If it fails, the line keeps its settings.
func (s *Service) refreshIdleLine(ctx context.Context, eventID string) {
	if s.cache.settingsCurrent(eventID) {
		return
	}
	_, _, _ = s.idleRefreshes.Do(eventID, func() (any, error) {
		if !s.cache.settingsCurrent(eventID) {
			_ = s.ensureSale(ctx, eventID, maxNewSaleAge) // it also tells whether the settings have changed
			s.readSettingsIfDue(context.WithoutCancel(ctx), eventID)
			s.cache.markSettingsCurrent(eventID)
		}
		return nil, nil //nolint:nilnil // there is nothing to share
	})
}

// titleTTL is when a known title is read again. titleRetryInterval is when a failed read is
// repeated. titleTimeout is how long a visitor waits for a title.
const (
	titleTTL           = 60 * time.Second
	titleRetryInterval = 5 * time.Second
	titleTimeout       = 150 * time.Millisecond
)

// readTitle returns the event's title and artist, cached or from the ticket service. Both are empty
// while they cannot be read, since the line works without them.
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
