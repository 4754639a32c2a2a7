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

// Acts of operators are in force in the line first, and ticket stores them afterwards. Until then they
// are pending: kept with the line, and by every replica that knows the line, so that they survive a
// loss of Redis. Each has an order by the line, and ticket keeps the latest act on each setting. So any
// replica may bring an act to ticket, repeatedly and late.

const (
	// actTimeout bounds the call by which ticket stores an act; the operator waits for it.
	actTimeout = time.Second
	// MaxBlockedUsers bounds the users blocked from a line, as in ticket.
	MaxBlockedUsers = 10_000
	actsInterval    = time.Second // the time between a worker's attempts to have ticket store acts
)

// changeSettings puts an operator's act in force, and has ticket store it. It is not durable while ticket does
// not answer. After an error it may be in force or not; the caller may repeat the call.
func (s *Service) changeSettings(ctx context.Context, eventID string, c SettingsChange) (durable bool, err error) {
	durable, later, err := s.act(ctx, eventID, c, s.cache.lastAct(eventID))
	if later > 0 { // the line had lost that act's order; this one is later all the same
		durable, _, err = s.act(ctx, eventID, c, later)
	}
	return durable, err
}

// act makes an act that is later than another one. Ticket may have one that is later all the same.
func (s *Service) act(ctx context.Context, eventID string, c SettingsChange, after int64) (durable bool, later int64, err error) {
	c.Act = after
	st, act, err := s.store.Act(ctx, eventID, s.cache.Snapshot(eventID), c)
	switch {
	case errors.Is(err, errs.ErrTooManyBlocked):
		return false, 0, err
	case err != nil || !st.Exists():
		later, err = s.changeAtTicket(ctx, eventID, c)
		return true, later, err
	}
	c.Act = act
	s.cache.Observe(eventID, st)
	s.cache.addAct(eventID, st.Epoch, c)
	s.cache.markFiguresChanged(eventID)
	failpoint.Hit("queue.act.in_force")
	later, err = s.storeAct(ctx, eventID, c)
	if isUndecided(err) {
		s.log.WarnContext(ctx, "act not stored by ticket yet", "event", eventID, "error", err)
		return false, 0, nil
	}
	failpoint.Hit("queue.settings.after_ticket")
	if err := s.settle(ctx, eventID, []SettingsChange{c}, nil, later > 0 || err != nil); err != nil {
		s.log.WarnContext(ctx, "act not settled yet", "event", eventID, "error", err) // the worker repeats it
	}
	return err == nil, later, err
}

// changeAtTicket makes a change while there is no line, or Redis does not answer. It returns the
// order of a later act that ticket got meanwhile: another replica may bring one that was pending.
func (s *Service) changeAtTicket(ctx context.Context, eventID string, c SettingsChange) (later int64, err error) {
	// Change accepts ids of unknown events; Settings refuses them.
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return 0, err
	}
	c.Act = max(s.cache.lineTime(eventID)*1000, set.Act+1, c.Act+1)
	if later, err = s.events.Change(ctx, eventID, c); err != nil {
		return 0, err
	}
	// Every replica learns of the change from the sale's next report, and reads the settings again.
	failpoint.Hit("queue.settings.after_ticket")
	return later, s.refreshSettings(ctx, eventID)
}

func (s *Service) storeAct(ctx context.Context, eventID string, c SettingsChange) (later int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	return s.events.Change(ctx, eventID, c)
}

// isUndecided reports whether ticket may still store the act: its answer was not about the act, as
// those of a pod that stops or does not have this replica's key yet.
func isUndecided(err error) bool {
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

// settle removes acts that ticket has decided about from the pending ones, and restores lost ones. The
// line reads ticket's settings before, so that it never has older ones than the acts; and again after, if
// ticket has others than the acts.
func (s *Service) settle(ctx context.Context, eventID string, decided, lost []SettingsChange, differ bool) error {
	if len(decided) > 0 {
		if err := s.refreshSettings(ctx, eventID); err != nil {
			return err
		}
	}
	st, pending, err := s.store.SettleActs(ctx, eventID, s.cache.Snapshot(eventID), decided, lost)
	if err != nil || !st.Exists() {
		return err
	}
	s.cache.Observe(eventID, st)
	s.cache.keepActs(eventID, st.Epoch, pending)
	if !differ {
		return nil
	}
	return s.refreshSettings(ctx, eventID)
}

// settleActs has ticket store the pending acts of a line. Acts that this replica knows of an earlier
// epoch may have been lost with it: ticket gets them first, since it may have later ones already, and
// those that it does not decide about are restored.
func (s *Service) settleActs(ctx context.Context, eventID string) {
	st, acts, err := s.store.SettleActs(ctx, eventID, s.cache.Snapshot(eventID), nil, nil)
	if err != nil || !st.Exists() {
		return // a tick logs it
	}
	s.cache.Observe(eventID, st)
	lost := s.cache.lostActs(eventID, st.Epoch)
	if lost == nil {
		s.cache.keepActs(eventID, st.Epoch, acts)
	}
	decided, differ := s.storeActs(ctx, eventID, slices.Concat(acts, lost))
	if len(decided)+len(lost) == 0 {
		return
	}
	lost = slices.DeleteFunc(slices.Clone(lost), func(c SettingsChange) bool { return slices.Contains(decided, c) })
	if err := s.settle(ctx, eventID, decided, lost, differ); err != nil {
		s.log.WarnContext(ctx, "acts not settled", "event", eventID, "error", err)
	}
}

// storeActs has ticket store acts, and returns those that it has decided about, and whether it refused
// any or has later ones.
func (s *Service) storeActs(ctx context.Context, eventID string, acts []SettingsChange) (decided []SettingsChange, differ bool) {
	acts = slices.SortedFunc(slices.Values(acts), func(a, b SettingsChange) int { return cmp.Compare(a.Act, b.Act) })
	for _, c := range acts { // in their order: an unblock may make room for a block
		later, err := s.storeAct(ctx, eventID, c)
		switch {
		case isUndecided(err) && errs.From(err).Kind != errs.Internal:
			return decided, differ // it does not answer
		case isUndecided(err): // which must not keep back the others
			s.log.ErrorContext(ctx, "act not stored by ticket", "event", eventID, "error", err)
			continue
		case err != nil || later > 0:
			s.log.WarnContext(ctx, "act not stored by ticket, for good", "event", eventID, "later_act", later, "error", err)
			differ = true
		}
		decided = append(decided, c)
	}
	return decided, differ
}

// addAct records a pending act until the line's list is read.
func (c *LineCache) addAct(eventID string, epoch int64, act SettingsChange) {
	c.upsertEntry(eventID, func(e *entry) {
		if len(e.acts) == 0 { // else some may be of an earlier epoch, and are restored
			e.actsEpoch = epoch
		}
		e.acts, e.lastAct = append(slices.Clone(e.acts), act), max(e.lastAct, act.Act)
	})
}

// keepActs records the pending acts of an epoch of the line.
func (c *LineCache) keepActs(eventID string, epoch int64, acts []SettingsChange) {
	c.upsertEntry(eventID, func(e *entry) {
		e.acts, e.actsEpoch = acts, epoch
		for _, act := range acts {
			e.lastAct = max(e.lastAct, act.Act)
		}
	})
}

// lastAct returns the highest order of an act on a line that this replica knows of: the line may have
// lost it, and with another server its clock may be behind.
func (c *LineCache) lastAct(eventID string) int64 {
	return readEntry(c, eventID, func(e *entry) int64 { return e.lastAct })
}

// lostActs returns the acts that were pending in another epoch than this one.
func (c *LineCache) lostActs(eventID string, epoch int64) []SettingsChange {
	return readEntry(c, eventID, func(e *entry) []SettingsChange {
		if e.actsEpoch == epoch || len(e.acts) == 0 {
			return nil
		}
		return e.acts
	})
}

// linesWithActs lists the lines with acts that ticket may not have.
func (c *LineCache) linesWithActs() []string {
	return c.filterLines(func(e *entry, _ time.Time) bool { return e.state.Pending > 0 || len(e.acts) > 0 })
}
