package limit

import (
	"context"
	"sync"
	"time"
)

const (
	// reportEvery is how soon this process reports to Redis what it has allowed by itself.
	reportEvery = 100 * time.Millisecond
	// reportTimeout is the time-out of a report, for which no visitor waits.
	reportTimeout = time.Second
	// maxReport is the most keys in one pipeline of a report.
	maxReport = 2000
)

// localParts lets this process allow a few requests of each key without asking Redis, at most
// keyCheck.part, and reports them soon. So all processes together allow at most what the rule
// allows, plus one part each. When Redis answers that no more is allowed, the process allows
// nothing until the reported requests are allowed again. The few requests of a network that isMinor
// describes are never reported, so they are allowed in addition.
type localParts struct {
	// send reports allowed requests to Redis.
	send func(context.Context, []keyCount)
	// isSpent reports whether Redis has answered that no more is allowed. It is called under the lock:
	// a request that was checked before that answer must not use the part after it.
	isSpent func(keyCheck) bool
	// limit is the most keys that are kept. Requests with further keys go to Redis.
	limit int

	mu    sync.Mutex
	keys  map[partKey]*part
	timer *time.Timer // runs while there is something to report

	reporting sync.Mutex // held during a report
	closed    bool
}

type partKey struct {
	scope scope
	key   string
}

// part counts the requests of one key that this process has allowed: waiting for the next report,
// or sending in a call that is in progress.
type part struct {
	check            keyCheck
	waiting, sending int
}

func (c keyCheck) partKey() partKey { return partKey{c.scope, c.key} }

// allow allows a request for those checks whose part suffices. For the other checks it returns the
// counts to send to Redis, which include the requests allowed before, and the indexes. asksRedis
// says which checks Redis must decide. The caller must call settle with the counts afterwards.
func (p *localParts) allow(checks []keyCheck, asksRedis []bool) (counts []keyCount, indexes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range checks {
		keyPart := p.keys[c.partKey()]
		if c.part > 0 && !asksRedis[i] && !p.isSpent(c) && (keyPart != nil || len(p.keys) < p.limit) {
			if keyPart == nil {
				keyPart = &part{check: c}
				p.keys[c.partKey()] = keyPart
			}
			if keyPart.waiting+keyPart.sending < c.part {
				keyPart.waiting++
				continue
			}
		}
		count := keyCount{keyCheck: c, asks: true}
		if keyPart != nil {
			count.allowed = keyPart.startSending()
		}
		counts, indexes = append(counts, count), append(indexes, i)
	}
	p.schedule()
	return counts, indexes
}

// isMinor reports whether the requests of a network since the last report are at most a hundredth
// of its rate. Most networks send no more, and reports would cost Redis more than they ever refuse.
func (k *part) isMinor() bool {
	return k.check.scope == byNetwork && time.Duration(k.waiting)*k.check.rule.interval() <= reportEvery/networkPart
}

// startSending moves the waiting requests to those that are being sent, and returns their number.
func (k *part) startSending() (allowed int) {
	allowed, k.waiting = k.waiting, 0
	k.sending += allowed
	return allowed
}

// settle ends the sending of counts. They are not sent again, even if Redis may not have counted
// them: otherwise Redis might count them twice.
func (p *localParts) settle(counts []keyCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range counts {
		keyPart := p.keys[c.partKey()]
		if keyPart == nil {
			continue
		}
		keyPart.sending -= c.allowed
		if keyPart.sending == 0 && keyPart.waiting == 0 {
			delete(p.keys, c.partKey())
		}
	}
}

// giveBack makes counts that were never sent wait for the next report. The caller must call settle
// with them too, which then changes nothing.
func (p *localParts) giveBack(counts []keyCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range counts {
		if keyPart := p.keys[counts[i].partKey()]; keyPart != nil {
			keyPart.sending -= counts[i].allowed
			keyPart.waiting += counts[i].allowed
			counts[i].allowed = 0
		}
	}
}

// schedule plans a report; p.mu is held.
func (p *localParts) schedule() {
	if p.timer == nil && len(p.keys) > 0 {
		p.timer = time.AfterFunc(reportEvery, p.reportOnTime)
	}
}

func (p *localParts) reportOnTime() {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	if p.closed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	p.report(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	p.schedule()
}

// report sends the waiting requests, but drops those of minor networks. p.reporting is held.
func (p *localParts) report(ctx context.Context) {
	var counts []keyCount
	p.mu.Lock()
	for key, k := range p.keys {
		switch {
		case k.waiting == 0:
		case k.isMinor():
			if k.waiting = 0; k.sending == 0 {
				delete(p.keys, key)
			}
		default:
			counts = append(counts, keyCount{keyCheck: k.check, allowed: k.startSending()})
		}
	}
	p.mu.Unlock()
	for len(counts) > 0 {
		n := min(maxReport, len(counts))
		p.send(ctx, counts[:n])
		p.settle(counts[:n])
		counts = counts[n:]
	}
}

// close makes a last report.
func (p *localParts) close(ctx context.Context) {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.closed = true
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.report(ctx)
}
