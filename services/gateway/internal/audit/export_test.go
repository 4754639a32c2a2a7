package audit

import "time"

// MaxWaiting is the most entries in the stream.
const MaxWaiting = maxWaiting

// MaxHeld is the most records in memory.
const MaxHeld = maxHeld

// LeaseLife is how long a lease lasts.
const LeaseLife = leaseLife

// HoldAct stores the record of an act in memory, as RecordAct does while Redis is unavailable.
func (l *Log) HoldAct(a *Act) bool {
	rec, err := l.newRecord(a.actedEvent())
	return err == nil && l.bufferInMemory(waitingRecord{Record: rec, act: true})
}

// Unhurried removes the time limits that a slow machine exceeds.
func (l *Log) Unhurried() *Log {
	if l.stream != nil {
		l.stream.timeout, l.stream.leaseLife = time.Minute, time.Hour
	}
	return l
}
