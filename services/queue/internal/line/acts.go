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

// An operator's act (a change of a line's settings) takes effect in the line first; the ticket
// service stores it afterwards. Until then the act is pending. Redis and every replica that knows
// the line keep it, so that it survives a loss of Redis. The line gives each act an order number,
// and the ticket service keeps the act with the highest number per setting. So any replica may send
// it, repeatedly and late.

const (
	// actTimeout limits the call by which the ticket service stores an act; the operator waits for it.
	actTimeout = time.Second
	// MaxBlockedUsers is the most users blocked from a line; the ticket service has the same limit.
	MaxBlockedUsers = 10_000
	actsInterval    = time.Second // how often a worker tries to send pending acts
)

// changeSettings applies an operator's change to the line, and sends it to the ticket service.
// durable is false if that did not answer. After an error the change may have been applied or not;
// the caller may repeat it.
func (s *Service) changeSettings(ctx context.Context, eventID string, c SettingsChange) (durable bool, err error) {
	durable, laterAct, err := s.applyChange(ctx, eventID, c, s.cache.lastAct(eventID))
	if laterAct > 0 { // repeat the act with a higher number
		durable, _, err = s.applyChange(ctx, eventID, c, laterAct)
	}
	return durable, err
}

// applyChange applies a change to the line, with an order number above previousAct, and sends it to
// the ticket service. laterAct is the number of a later act there on the same setting, else 0.
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

// changeAtTicket has only the ticket service store a change: there is no line, or Redis is away.
// laterAct is the number of a later act that another replica has sent there meanwhile, else 0.
func (s *Service) changeAtTicket(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error) {
	// This fails if the event is unknown; ChangeSettings would accept its id.
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return 0, err
	}
	c.Act = max(s.cache.lineTime(eventID)*1000, settings.Act+1, c.Act+1)
	if laterAct, err = s.events.ChangeSettings(ctx, eventID, c); err != nil {
		return 0, err
	}
	// The next sale report tells every replica of the change; it then reads the settings again.
	failpoint.Hit("queue.settings.after_ticket")
	return laterAct, s.refreshSettings(ctx, eventID)
}

// sendAct sends an act to the ticket service. laterAct is the number of a later act there, else 0.
func (s *Service) sendAct(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	return s.events.ChangeSettings(ctx, eventID, c)
}

// isOutcomeUnknown reports whether the act must be sent again after err, since it may not be
// stored: after a timeout, or if a pod of the ticket service stops or lacks this replica's key.
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

// updatePendingActs removes decided acts, which the ticket service has stored or refused, from the
// line's pending acts, and adds lost ones again. Before, it copies the stored settings to the line,
// so that they are not older than the decided acts. If they differ from the acts (settingsDiffer),
// it copies them once more afterwards.
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

// sendPendingActs sends the pending acts of a line to the ticket service. It also sends acts that
// it cached in an earlier epoch (lifetime of the line's data), since Redis may have lost them. Such
// acts become pending in the line again unless the ticket service stores or refuses them.
func (s *Service) sendPendingActs(ctx context.Context, eventID string) {
	st, acts, err := s.store.UpdatePendingActs(ctx, eventID, s.cache.Snapshot(eventID), nil, nil)
	if err != nil || !st.Exists() {
		return // the next tick logs the error
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

// sendActs sends acts to the ticket service in order. decided are the acts it has stored or
// refused; settingsDiffer means that it refused an act or has a later one.
func (s *Service) sendActs(ctx context.Context, eventID string, acts []SettingsChange) (decided []SettingsChange, settingsDiffer bool) {
	acts = slices.SortedFunc(slices.Values(acts), func(a, b SettingsChange) int { return cmp.Compare(a.Act, b.Act) })
	for _, c := range acts { // in order: unblocking a user may make room to block another
		laterAct, err := s.sendAct(ctx, eventID, c)
		switch {
		case isOutcomeUnknown(err) && errs.From(err).Kind != errs.Internal:
			return decided, settingsDiffer // the ticket service does not answer
		case isOutcomeUnknown(err): // an act that fails must not delay other acts
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

// addAct caches a new pending act of a line. keepActs later replaces these by the line's own list.
func (c *LineCache) addAct(eventID string, epoch int64, act SettingsChange) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		if len(e.acts) == 0 { // else keep the old epoch: its acts may be lost
			e.actsEpoch = epoch
		}
		e.acts, e.lastAct = append(slices.Clone(e.acts), act), max(e.lastAct, act.Act)
	})
}

// keepActs caches a line's list of pending acts, with the epoch in which the line had them.
func (c *LineCache) keepActs(eventID string, epoch int64, acts []SettingsChange) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		e.acts, e.actsEpoch = acts, epoch
		for _, act := range acts {
			e.lastAct = max(e.lastAct, act.Act)
		}
	})
}

// lastAct returns the highest order number of a line's acts that this replica knows. If Redis loses
// this number, the line could give out lower ones: a new server's clock may be behind.
func (c *LineCache) lastAct(eventID string) int64 {
	return readEntry(c, eventID, func(e *lineEntry) int64 { return e.lastAct })
}

// lostActs returns the cached pending acts if they are of another epoch, else nil.
func (c *LineCache) lostActs(eventID string, epoch int64) []SettingsChange {
	return readEntry(c, eventID, func(e *lineEntry) []SettingsChange {
		if e.actsEpoch == epoch || len(e.acts) == 0 {
			return nil
		}
		return e.acts
	})
}

// linesWithActs lists the lines with pending acts.
func (c *LineCache) linesWithActs() []string {
	return c.filterLines(func(e *lineEntry, _ time.Time) bool { return e.state.Pending > 0 || len(e.acts) > 0 })
}
