package line

import "context"

// LineOverview is the state of a line as operators see it.
type LineOverview struct {
	EventID                            string
	Waiting, Parked, Active, Threshold int64
	WaitingGeneral                     int64 // those who wait for the general sale
	AdmittedPerMinute                  float64
	Epoch                              int64
	Pauses                             []PauseReason // the reasons why nobody is admitted; empty while the line admits
	RecoveryEndsAt                     int64         // epoch ms, 0 unless the line is recovering
	Sale                               SaleStatus
	Durable                            bool // the ticket service has stored all acts
}

// SetThreshold sets how many visitors may hold a slot of the event at once.
func (s *Service) SetThreshold(ctx context.Context, eventID string, threshold int64) (LineOverview, error) {
	return s.changeAndShow(ctx, eventID, SettingsChange{Threshold: &threshold})
}

// Pause stops admission until Resume. Visitors keep their places and slots.
func (s *Service) Pause(ctx context.Context, eventID string) (LineOverview, error) {
	return s.changeAndShow(ctx, eventID, SettingsChange{Paused: new(true)})
}

func (s *Service) Resume(ctx context.Context, eventID string) (LineOverview, error) {
	return s.changeAndShow(ctx, eventID, SettingsChange{Paused: new(false)})
}

// Block keeps a user out of the line until Unblock. It ends the user's slot or place.
func (s *Service) Block(ctx context.Context, eventID, userID string) (durable bool, err error) {
	return s.changeSettings(ctx, eventID, SettingsChange{Block: userID})
}

// Unblock lets a user join the line again, as a newcomer.
func (s *Service) Unblock(ctx context.Context, eventID, userID string) (durable bool, err error) {
	return s.changeSettings(ctx, eventID, SettingsChange{Unblock: userID})
}

// Revoke ends a user's slot, and reports whether there was one. The user's holds of seats last
// until they expire. The revocation is stored only in Redis: if it is lost, an entry token issued
// within the last 60 s could restore the slot.
func (s *Service) Revoke(ctx context.Context, eventID, userID string) (bool, error) {
	st, ended, err := s.store.Revoke(ctx, eventID, s.cache.Snapshot(eventID), userID)
	if err != nil {
		return false, err
	}
	if !st.Exists() {
		return false, s.existence.check(ctx, eventID)
	}
	s.cache.Observe(eventID, st)
	return ended, nil
}

func (s *Service) changeAndShow(ctx context.Context, eventID string, c SettingsChange) (LineOverview, error) {
	if _, err := s.changeSettings(ctx, eventID, c); err != nil {
		return LineOverview{}, err
	}
	return s.ReadOverview(ctx, eventID)
}

// ReadOverview returns the state of an event's line, or only the settings if there is no line.
func (s *Service) ReadOverview(ctx context.Context, eventID string) (LineOverview, error) {
	st, err := s.readState(ctx, eventID)
	if err != nil {
		return LineOverview{}, err
	}
	if !st.Exists() {
		return s.overviewWithoutLine(ctx, eventID)
	}
	// No replica reads the report of an unused line regularly, so it may be old.
	if st.ShopAway() && s.ensureSale(ctx, eventID, maxSaleAge) == nil {
		if st, err = s.readState(ctx, eventID); err != nil {
			return LineOverview{}, err
		}
	}
	o := LineOverview{
		EventID: eventID, Waiting: st.Waiting, Parked: st.Parked, Active: st.Active + st.PrevHolders, Threshold: st.Threshold,
		AdmittedPerMinute: s.cache.admittedPerMinute(eventID), Epoch: st.Epoch, Pauses: st.Pauses(), Sale: st.SaleStatus(), WaitingGeneral: st.WaitingGeneral(),
		Durable: st.Pending == 0,
	}
	if st.Recovering() {
		o.RecoveryEndsAt = st.PauseUntil
	}
	return o, nil
}

func (s *Service) overviewWithoutLine(ctx context.Context, eventID string) (LineOverview, error) {
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return LineOverview{}, err
	}
	_ = s.ensureSale(ctx, eventID, maxNewSaleAge) // after a failure the last report is used
	o := LineOverview{EventID: eventID, Threshold: s.rules.Threshold, Sale: s.cache.saleStatus(eventID), Durable: true}
	if settings.Threshold != nil {
		o.Threshold = *settings.Threshold
	}
	if settings.Paused {
		o.Pauses = append(o.Pauses, PausedByOperator)
	}
	if !o.Sale.AllowsAdmission() {
		o.Pauses = append(o.Pauses, PausedBySale)
	}
	return o, nil
}
