// Package identity turns what a request carries (session, visitor cookie, tokens of the two tiers) into claims that were verified. It
// knows signatures, audiences and lives; whether a claim opens a route is package edge's business.
package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/token"
)

// Keys are the key sets of each kind of token.
type Keys struct {
	Session token.KeySet
	Tier1   token.KeySet
	Entry   token.KeySet
}

// ring is Keys with what is derived from them.
type ring struct {
	Keys

	anon, ticket token.MACSet
}

// Revocations are the sessions that ended before their time.
type Revocations interface {
	// Known reports whether the list was ever read; before, no session can be believed.
	Known() bool
	Refused(c *claims.Session) bool
}

// Verifier is safe for concurrent use.
type Verifier struct {
	keys     atomic.Pointer[ring] // read once by whatever needs more than one of them
	revoked  Revocations
	now      func() time.Time
	sessions *cache[*claims.Session]
	tier1    *cache[*claims.Tier1]
	entries  *cache[*claims.Entry]
}

// New makes a Verifier that keeps up to size verified tokens of each kind; now is the clock.
func New(keys Keys, size int, revoked Revocations, now func() time.Time) (*Verifier, error) {
	v := &Verifier{revoked: revoked, now: now}
	v.Rekey(keys)
	var err [3]error
	v.sessions, err[0] = newCache[*claims.Session](kindSession, size, now)
	v.tier1, err[1] = newCache[*claims.Tier1](kindTier1, size, now)
	v.entries, err[2] = newCache[*claims.Entry](kindEntry, size, now)
	if e := errors.Join(err[:]...); e != nil {
		return nil, fmt.Errorf("token cache: %w", e)
	}
	return v, nil
}

// Rekey signs and verifies with other keys from now on, also what was verified before.
func (v *Verifier) Rekey(keys Keys) {
	v.keys.Store(&ring{
		Keys: keys, anon: keys.Session.Derive(claims.LabelAnon), ticket: keys.Tier1.Derive(claims.LabelVwrTicket),
	})
}

// Session returns the session of a request: the Bearer token's, else the cookie's. It fails with
// errs.ErrUnauthenticated when there is neither, with errs.ErrSessionInvalid when what there is
// does not verify, has expired or was revoked, and with errs.ErrUnavailable while nobody knows what
// was revoked.
func (v *Verifier) Session(h http.Header) (*claims.Session, error) {
	sent := [...]string{bearer(h), cookie(h, SessionCookie)}
	for _, tok := range sent {
		if c := v.session(tok); c != nil {
			if !v.revoked.Known() {
				return nil, errs.ErrUnavailable
			}
			return c, nil
		}
	}
	if sent[0]+sent[1] != "" {
		return nil, errs.ErrSessionInvalid
	}
	return nil, errs.ErrUnauthenticated
}

// Sessions returns all valid sessions of a request: the Bearer token's and the cookie's.
func (v *Verifier) Sessions(h http.Header) []*claims.Session {
	var found []*claims.Session
	for _, tok := range [...]string{bearer(h), cookie(h, SessionCookie)} {
		if c := v.session(tok); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// session is nil for a token that is no valid session.
func (v *Verifier) session(tok string) *claims.Session {
	if tok == "" {
		return nil
	}
	c, err := v.sessions.get(tok, v.now(), v.keys.Load(), v.verifySession)
	if err != nil {
		return nil
	}
	if v.revoked.Refused(c) {
		refused(kindSession, reasonRevoked)
		return nil
	}
	return c
}

func (v *Verifier) verifySession(keys *ring, tok string) (*claims.Session, error) {
	c := new(claims.Session)
	return c, keys.Session.Verify(tok, c, claims.AudienceSession, v.now())
}

// SignSession makes the token of a session.
func (v *Verifier) SignSession(c *claims.Session) (string, error) {
	return v.keys.Load().Session.Sign(c)
}

// Anon returns the visitor's id inside a verified urr-anon, "" when there is none.
func (v *Verifier) Anon(h http.Header) string {
	sealed := cookie(h, AnonCookie)
	if sealed == "" {
		return ""
	}
	a, err := claims.OpenAnon(v.keys.Load().anon, sealed)
	if err != nil {
		refused(kindAnon, reasonInvalid)
		return ""
	}
	return a.String()
}

// NewAnon makes a visitor: the id and the cookie's value.
func (v *Verifier) NewAnon() (id, value string) {
	a := claims.NewAnon()
	return a.String(), a.Seal(v.keys.Load().anon)
}

// Ticket opens the request's tier-1 ticket; ok is false when there is none of this event and visitor.
func (v *Verifier) Ticket(h http.Header, event, visitor string) (claims.VwrTicket, string, bool) {
	raw := first(h, VWRTicketHeader)
	if raw == "" {
		return claims.VwrTicket{}, "", false
	}
	t, err := claims.OpenVwrTicket(v.keys.Load().ticket, event, visitor, raw)
	if err != nil {
		refused(kindTicket, reasonInvalid)
	}
	return t, raw, err == nil
}

// Tier1 returns the claims of a tier-1 token of this event that is the visitor's (anon) or, after a lobby, the user's; nil when there is
// none. The round is for the caller to compare.
func (v *Verifier) Tier1(h http.Header, event, anon, user string) *claims.Tier1 {
	tok := cookie(h, Tier1Cookie)
	if tok == "" {
		return nil
	}
	c, err := v.tier1.get(tok, v.now(), v.keys.Load(), v.verifyTier1)
	if err != nil || c.EventID != event {
		return nil
	}
	mine := anon != "" && c.UID == anon || user != "" && c.UID == claims.UserPrefix+user
	if !mine {
		return nil
	}
	return c
}

func (v *Verifier) verifyTier1(keys *ring, tok string) (*claims.Tier1, error) {
	c := new(claims.Tier1)
	return c, keys.Tier1.Verify(tok, c, claims.AudienceVWR, v.now())
}

// Entries returns the claims of the entry tokens that a request carries: the header's, as a tab may hold one of its own, then the
// cookie's. Each is the user's and, unless event is "", of that event; nil where there is none. Whether a line still honours them
// is for the caller to judge.
func (v *Verifier) Entries(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) {
		return v.entries.get(tok, v.now(), v.keys.Load(), v.verifyEntry)
	})
}

// Entry is the first of Entries, nil when there is none.
func (v *Verifier) Entry(h http.Header, event, user string) *claims.Entry {
	e := v.Entries(h, event, user)
	return cmp.Or(e[0], e[1])
}

// Sent is Entries with those that have expired: they open nothing, but tell which slot their holder means.
func (v *Verifier) Sent(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) {
		c, keys := new(claims.Entry), v.keys.Load()
		err := keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
		if errors.Is(err, token.ErrExpired) {
			issued := time.Unix(c.IssuedAt, 0)
			err = keys.Entry.Verify(tok, c, claims.AudienceEntry, issued) // everything else once more
		}
		return c, err
	})
}

func (v *Verifier) entriesOf(h http.Header, event, user string, read func(string) (*claims.Entry, error)) (found [2]*claims.Entry) {
	if user == "" {
		return found
	}
	for i, tok := range [...]string{first(h, EntryHeader), cookie(h, EntryCookie)} {
		if tok == "" {
			continue
		}
		if c, err := read(tok); err == nil && c.UserID == user && (event == "" || c.EventID == event) {
			found[i] = c
		}
	}
	return found
}

func (v *Verifier) verifyEntry(keys *ring, tok string) (*claims.Entry, error) {
	c := new(claims.Entry)
	return c, keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
}

// EntryEnd is when an entry token ends that queue has just issued; the zero time when it does not verify, which means that the two
// services' secrets differ.
func (v *Verifier) EntryEnd(tok string) time.Time {
	c, err := v.entries.get(tok, v.now(), v.keys.Load(), v.verifyEntry)
	if err != nil {
		return time.Time{}
	}
	return c.Expiry()
}
