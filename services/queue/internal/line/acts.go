package line

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
)

// An operator's act (a change of a line's settings) takes effect in the line first, and ticket stores
// it afterwards. Until then the act is pending: it is kept with the line and by every replica that
// knows the line, so that it survives a loss of Redis. The line gives each act an order number, and
// ticket keeps the act with the highest number per setting. So any replica may send it, repeatedly and
// late.

const (
	// actTimeout bounds the call by which ticket stores an act. The operator waits for this call.
	actTimeout = time.Second
	// MaxBlockedUsers is how many users may be blocked from a line. Ticket has the same limit.
	MaxBlockedUsers = 10_000
	actsInterval    = time.Second // the time between a worker's attempts to have ticket store acts
)

// changeSettings applies a change by an operator to the line, and has ticket store it. durable is false
// if ticket did not answer. After an error the change may have been applied or not; the caller may
// repeat it.
func (s *Service) changeSettings(ctx context.Context, eventID string, c SettingsChange) (durable bool, err error) {
	durable, laterAct, err := s.applyChange(ctx, eventID, c, s.cache.lastAct(eventID))
	if laterAct > 0 { // the line had lost this order number; the new act gets a higher one
		durable, _, err = s.applyChange(ctx, eventID, c, laterAct)
	}
	return durable, err
}

// applyChange applies a change to the line, with an order number above previousAct, and sends it to
// ticket. laterAct is the order number of a later act on the same setting that ticket has, else 0.
func (s *Service) applyChange(ctx context.Context, eventID string, c SettingsChange, previousAct int64) (durable bool, laterAct int64, err error) {
	c.Act = previousAct
	st, act, err := s.store.Act(ctx, eventID, s.cache.Snapshot(eventID), c)
	switch {
	case errors.Is(err, errs.ErrTooManyBlocked):
		return false, 0, err
	case err != nil || !st.Exists():
		laterAct, err = s.changeAtTicket(ctx, eventID, c)
		return true, laterAct, err
	}
	c.Act = act
	s.cache.Observe(eventID, st)
	s.cache.addAct(eventID, st.Epoch, c)
	s.cache.markFiguresChanged(eventID)
	failpoint.Hit("queue.act.in_force")
	laterAct, err = s.sendAct(ctx, eventID, c)
	if isOutcomeUnknown(err) {
		s.log.WarnContext(ctx, "act not stored by ticket yet", "event", eventID, "error", err)
		return false, 0, nil
	}
	failpoint.Hit("queue.settings.after_ticket")
	if err := s.updatePendingActs(ctx, eventID, []SettingsChange{c}, nil, laterAct > 0 || err != nil); err != nil {
		s.log.WarnContext(ctx, "act not settled yet", "event", eventID, "error", err) // the worker repeats it
	}
	return err == nil, laterAct, err
}

// changeAtTicket stores a change at ticket only, while there is no line or Redis does not answer.
// laterAct is the number of a later act that another replica has sent to ticket meanwhile, else 0.
func (s *Service) changeAtTicket(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error) {
	// ChangeSettings accepts ids of unknown events; Settings refuses them.
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return 0, err
	}
	c.Act = max(s.cache.lineTime(eventID)*1000, settings.Act+1, c.Act+1)
	if laterAct, err = s.events.ChangeSettings(ctx, eventID, c); err != nil {
		return 0, err
	}
	// Every replica learns of the change from the sale's next report, and reads the settings again.
	failpoint.Hit("queue.settings.after_ticket")
	return laterAct, s.refreshSettings(ctx, eventID)
}

// sendAct has ticket store an act. laterAct is the number of a later act that ticket has, else 0.
func (s *Service) sendAct(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	return s.events.ChangeSettings(ctx, eventID, c)
}

// isOutcomeUnknown reports whether the act must be sent again after err, since ticket may not store
// it: after a timeout, or if a pod of ticket stops or lacks this replica's key.
func isOutcomeUnknown(err error) bool {
	if err == nil {
		return false
	}
	switch errs.From(err).Kind {
	case errs.Invalid, errs.NotFound, errs.Conflict, errs.Stale, errs.Unprocessable:
		return false
	default:
		return true
	}
}

// updatePendingActs removes the decided acts, which ticket has stored or refused, from the line's
// pending acts, and adds the lost ones again. Before that, it copies ticket's settings to the line,
// so that they are not older than the decided acts. If ticket's settings differ from the acts, it
// copies them once more afterwards.
func (s *Service) updatePendingActs(ctx context.Context, eventID string, decided, lost []SettingsChange, settingsDiffer bool) error {
	if len(decided) > 0 {
		if err := s.refreshSettings(ctx, eventID); err != nil {
			return err
		}
	}
	st, pending, err := s.store.UpdatePendingActs(ctx, eventID, s.cache.Snapshot(eventID), decided, lost)
	if err != nil || !st.Exists() {
		return err
	}
	s.cache.Observe(eventID, st)
	s.cache.keepActs(eventID, st.Epoch, pending)
	if !settingsDiffer {
		return nil
	}
	return s.refreshSettings(ctx, eventID)
}

// sendPendingActs has ticket store the pending acts of a line. It also sends acts that this replica
// has cached in an earlier epoch, since Redis may have lost them. Ticket may already have later
// acts. Lost acts that ticket neither stores nor refuses become pending in the line again.
func (s *Service) sendPendingActs(ctx context.Context, eventID string) {
	st, acts, err := s.store.UpdatePendingActs(ctx, eventID, s.cache.Snapshot(eventID), nil, nil)
	if err != nil || !st.Exists() {
		return // a tick logs it
	}
	s.cache.Observe(eventID, st)
	lost := s.cache.lostActs(eventID, st.Epoch)
	if lost == nil {
		s.cache.keepActs(eventID, st.Epoch, acts)
	}
	decided, settingsDiffer := s.sendActs(ctx, eventID, slices.Concat(acts, lost))
	if len(decided)+len(lost) == 0 {
		return
	}
	lost = slices.DeleteFunc(slices.Clone(lost), func(c SettingsChange) bool { return slices.Contains(decided, c) })
	if err := s.updatePendingActs(ctx, eventID, decided, lost, settingsDiffer); err != nil {
		s.log.WarnContext(ctx, "acts not settled", "event", eventID, "error", err)
	}
}

// sendActs has ticket store acts in their order. It returns the decided acts: those that ticket has
// stored or refused. settingsDiffer means that ticket refused an act or has a later one.
func (s *Service) sendActs(ctx context.Context, eventID string, acts []SettingsChange) (decided []SettingsChange, settingsDiffer bool) {
	acts = slices.SortedFunc(slices.Values(acts), func(a, b SettingsChange) int { return cmp.Compare(a.Act, b.Act) })
	for _, c := range acts { // in order, since unblocking a user may make room to block another
		laterAct, err := s.sendAct(ctx, eventID, c)
		switch {
		case isOutcomeUnknown(err) && errs.From(err).Kind != errs.Internal:
			return decided, settingsDiffer // ticket does not answer
		case isOutcomeUnknown(err): // one act that fails must not delay the others
			s.log.ErrorContext(ctx, "act not stored by ticket", "event", eventID, "error", err)
			continue
		case err != nil || laterAct > 0:
			s.log.WarnContext(ctx, "act not stored by ticket, for good", "event", eventID, "later_act", laterAct, "error", err)
			settingsDiffer = true
		}
		decided = append(decided, c)
	}
	return decided, settingsDiffer
}

// addAct adds an act to the cached pending acts of a line, until keepActs caches the line's list.
func (c *LineCache) addAct(eventID string, epoch int64, act SettingsChange) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		if len(e.acts) == 0 { // else keep the old epoch, so that acts of a lost epoch are restored
			e.actsEpoch = epoch
		}
		e.acts, e.lastAct = append(slices.Clone(e.acts), act), max(e.lastAct, act.Act)
	})
}

// keepActs caches the list of pending acts that the line had in an epoch.
func (c *LineCache) keepActs(eventID string, epoch int64, acts []SettingsChange) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		e.acts, e.actsEpoch = acts, epoch
		for _, act := range acts {
			e.lastAct = max(e.lastAct, act.Act)
		}
	})
}

// lastAct returns the highest order number of an act on a line that this replica knows. A line that
// has lost this number could give out lower ones, since another Redis server's clock may be behind.
func (c *LineCache) lastAct(eventID string) int64 {
	return readEntry(c, eventID, func(e *lineEntry) int64 { return e.lastAct })
}

// lostActs returns the cached pending acts if they are of another epoch than the given one, else nil.
func (c *LineCache) lostActs(eventID string, epoch int64) []SettingsChange {
	return readEntry(c, eventID, func(e *lineEntry) []SettingsChange {
		if e.actsEpoch == epoch || len(e.acts) == 0 {
			return nil
		}
		return e.acts
	})
}

// linesWithActs lists the lines with pending acts, which ticket may not have stored.
func (c *LineCache) linesWithActs() []string {
	return c.filterLines(func(e *lineEntry, _ time.Time) bool { return e.state.Pending > 0 || len(e.acts) > 0 })
}
