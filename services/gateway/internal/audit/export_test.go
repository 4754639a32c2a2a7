package audit

import "time"

// MaxWaiting is the maximum number of entries in the stream.
const MaxWaiting = maxWaiting

// MaxHeld is the maximum number of records in memory.
const MaxHeld = maxHeld

// LeaseLife is how long a lease lasts.
const LeaseLife = leaseLife

// HoldAct makes the record of an act wait in memory, like while Redis is unavailable.
func (l *Log) HoldAct(a *Act) bool {
	rec, err := newRecord(a.actedEvent())
	return err == nil && l.bufferInMemory(waitingRecord{Record: rec, act: true})
}

// Unhurried lifts the time limits that a slow machine exceeds.
func (l *Log) Unhurried() *Log {
	if l.stream != nil {
		l.stream.timeout, l.stream.leaseLife = time.Minute, time.Hour
	}
	return l
}
