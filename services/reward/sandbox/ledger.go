// Package sandbox is a provider of points and coupons for development and tests. It serves a ledger
// over HTTP and injects faults on demand. Audits use this ledger, not the platform's tables. The
// reward service uses only its HTTP API, through the client in internal/provider.
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Payout is a payment in the ledger.
type Payout struct {
	TransactionID string    `json:"transactionId"`
	Key           string    `json:"key"`
	MemberID      string    `json:"memberId"`
	Kind          string    `json:"kind"`  // POINT or COUPON
	Value         int64     `json:"value"` // points, or the coupon's number
	At            time.Time `json:"at"`
}

// Order asks the ledger for a payment.
type Order struct {
	Key      string `json:"key"`
	MemberID string `json:"memberId"`
	Kind     string `json:"kind"`
	Value    int64  `json:"value"`
}

// The errors with which the ledger refuses to pay.
var (
	errVoided    = errors.New("the key is void")
	errKeyReused = errors.New("the key was used for another payout")
)

// ledgerLine is one line of the ledger's file: a payout, or a key that was voided.
type ledgerLine struct {
	Payout *Payout `json:"payout,omitempty"`
	Voided string  `json:"voided,omitempty"`
}

// Ledger keeps every payout. Its methods are safe for concurrent use. What they return is already
// written to the file, so the end of the process loses nothing.
//
// A key is recognised only for a time that the caller gives. After that, a payment with the same
// key pays again, as it does at real providers.
type Ledger struct {
	mu      sync.Mutex
	file    *os.File
	payouts []Payout
	last    map[string]Payout // the latest payout of each key
	voided  map[string]bool
	now     func() time.Time
}

// Open opens a ledger and reads its file. A file that does not exist is created.
func Open(path string, now func() time.Time) (*Ledger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{file: file, last: map[string]Payout{}, voided: map[string]bool{}, now: now}
	if err := l.replay(); err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), file.Close())
	}
	return l, nil
}

// replay reads the file's lines. It cuts off an incomplete last line: its request got no answer.
func (l *Ledger) replay() error {
	decoder := json.NewDecoder(l.file)
	var completeBytes int64
	for {
		var e ledgerLine
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
		l.apply(e)
		completeBytes = decoder.InputOffset()
	}
	if err := l.file.Truncate(completeBytes); err != nil {
		return err
	}
	_, err := l.file.Seek(completeBytes, io.SeekStart)
	return err
}

func (l *Ledger) Close() error { return l.file.Close() }

// Pay adds a payout. If the key was paid less than remembered ago, Pay returns the earlier payout.
func (l *Ledger) Pay(o Order, remembered time.Duration) (Payout, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.voided[o.Key] {
		return Payout{}, errVoided
	}
	now := l.now()
	if old, ok := l.last[o.Key]; ok && now.Sub(old.At) < remembered {
		if old.MemberID != o.MemberID || old.Kind != o.Kind || old.Value != o.Value {
			return Payout{}, errKeyReused
		}
		return old, nil
	}
	p := Payout{TransactionID: uuid.NewString(), Key: o.Key, MemberID: o.MemberID, Kind: o.Kind, Value: o.Value, At: now}
	return p, l.write(ledgerLine{Payout: &p})
}

// Lookup returns the newest payout of a key that is not older than remembered.
func (l *Ledger) Lookup(key string, remembered time.Duration) (Payout, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.last[key]
	return p, ok && l.now().Sub(p.At) < remembered
}

// Void makes any later payout of the key impossible. If the key was paid, it returns the payout.
func (l *Ledger) Void(key string) (paid *Payout, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.last[key]; ok {
		return &p, nil
	}
	if l.voided[key] {
		return nil, nil
	}
	return nil, l.write(ledgerLine{Voided: key})
}

// snapshot returns all payouts. It does not copy the slice, since the ledger only appends to it.
func (l *Ledger) snapshot() []Payout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.payouts
}

// All returns every payout, oldest first.
func (l *Ledger) All() []Payout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Payout{}, l.payouts...)
}

// write appends a line to the file with one call, then applies it in memory. The caller holds mu.
func (l *Ledger) write(e ledgerLine) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	l.apply(e)
	return nil
}

func (l *Ledger) apply(e ledgerLine) {
	if e.Voided != "" {
		l.voided[e.Voided] = true
	}
	if p := e.Payout; p != nil {
		l.payouts = append(l.payouts, *p)
		l.last[p.Key] = *p
	}
}
