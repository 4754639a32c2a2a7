// Package identity turns what a request carries (session, visitor cookie, tokens of the two tiers) into claims that were verified. It
// knows signatures, audiences and lives; whether a claim opens a route is package edge's business.
package identity

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/token"
)

// Keys are the key sets of each kind of token.
type Keys struct {
	Session token.KeySet
	Tier1   token.KeySet
	Entry   token.KeySet
	// CDN is the value of X-CloudFront-Verified by which the CDN says that it checked the tier-1 token's signature; empty: never believed.
	CDN config.Secret
}

// Verifier is safe for concurrent use.
type Verifier struct {
	keys     Keys
	anon     token.MACSet
	ticket   token.MACSet
	cdn      []byte
	now      func() time.Time
	sessions *cache[*claims.Session]
	tier1    *cache[*claims.Tier1]
	entries  *cache[*claims.Entry]
}

// New makes a Verifier that keeps up to size verified tokens of each kind; now is the clock.
func New(keys Keys, size int, now func() time.Time) (*Verifier, error) {
	v := &Verifier{
		keys: keys, anon: keys.Session.Derive(claims.LabelAnon), ticket: keys.Tier1.Derive(claims.LabelVwrTicket),
		cdn: []byte(keys.CDN.Reveal()), now: now,
	}
	var err [3]error
	v.sessions, err[0] = newCache[*claims.Session](size, now)
	v.tier1, err[1] = newCache[*claims.Tier1](size, now)
	v.entries, err[2] = newCache[*claims.Entry](size, now)
	if e := errors.Join(err[:]...); e != nil {
		return nil, fmt.Errorf("token cache: %w", e)
	}
	return v, nil
}

// Session returns the session of a request: the Bearer token's, else the cookie's. It fails with errs.ErrUnauthenticated when there is
// neither, and with errs.ErrSessionInvalid when what there is does not verify or has expired.
func (v *Verifier) Session(h http.Header) (*claims.Session, error) {
	found := false
	for _, tok := range [...]string{bearer(h), cookie(h, SessionCookie)} {
		if tok == "" {
			continue
		}
		found = true
		if c, err := v.sessions.get(tok, v.now(), v.verifySession); err == nil {
			return c, nil
		}
	}
	if found {
		return nil, errs.ErrSessionInvalid
	}
	return nil, errs.ErrUnauthenticated
}

func (v *Verifier) verifySession(tok string) (*claims.Session, error) {
	c := new(claims.Session)
	return c, v.keys.Session.Verify(tok, c, claims.AudienceSession, v.now())
}

// SignSession makes the token of a session.
func (v *Verifier) SignSession(c *claims.Session) (string, error) { return v.keys.Session.Sign(c) }

// Anon returns the visitor's id inside a verified urr-anon, "" when there is none.
func (v *Verifier) Anon(h http.Header) string {
	a, err := claims.OpenAnon(v.anon, cookie(h, AnonCookie))
	if err != nil {
		return ""
	}
	return a.String()
}

// NewAnon makes a visitor: the id and the cookie's value.
func (v *Verifier) NewAnon() (id, value string) {
	a := claims.NewAnon()
	return a.String(), a.Seal(v.anon)
}

// Ticket opens the request's tier-1 ticket; ok is false when there is none of this event and visitor.
func (v *Verifier) Ticket(h http.Header, event, visitor string) (claims.VwrTicket, string, bool) {
	raw := first(h, VWRTicketHeader)
	if raw == "" {
		return claims.VwrTicket{}, "", false
	}
	t, err := claims.OpenVwrTicket(v.ticket, event, visitor, raw)
	return t, raw, err == nil
}

// Tier1 returns the claims of a tier-1 token of this event that is the visitor's (anon) or, after a lobby, the user's; nil when there is
// none. The round is for the caller to compare. When the CDN vouches for the signature it is not checked again; the claims always are.
func (v *Verifier) Tier1(h http.Header, event, anon, user string) *claims.Tier1 {
	tok := cookie(h, Tier1Cookie)
	if tok == "" {
		return nil
	}
	var (
		c   *claims.Tier1
		err error
	)
	if v.vouched(h) {
		c, err = v.readTier1(tok)
	} else {
		c, err = v.tier1.get(tok, v.now(), v.verifyTier1)
	}
	if err != nil || c.EventID != event {
		return nil
	}
	mine := anon != "" && c.UID == anon || user != "" && c.UID == claims.UserPrefix+user
	if !mine {
		return nil
	}
	return c
}

func (v *Verifier) verifyTier1(tok string) (*claims.Tier1, error) {
	c := new(claims.Tier1)
	return c, v.keys.Tier1.Verify(tok, c, claims.AudienceVWR, v.now())
}

// vouched reports whether the CDN says that it checked the tier-1 token.
func (v *Verifier) vouched(h http.Header) bool {
	said := first(h, VerifiedHeader)
	return len(v.cdn) > 0 && said != "" && subtle.ConstantTimeCompare([]byte(said), v.cdn) == 1
}

// Entries returns the claims of the entry tokens that a request carries: the header's, as a tab may hold one of its own, then the
// cookie's. Each is the user's and, unless event is "", of that event; nil where there is none. Whether a line still honours them
// is for the caller to judge.
func (v *Verifier) Entries(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) { return v.entries.get(tok, v.now(), v.verifyEntry) })
}

// Entry is the first of Entries, nil when there is none.
func (v *Verifier) Entry(h http.Header, event, user string) *claims.Entry {
	e := v.Entries(h, event, user)
	return cmp.Or(e[0], e[1])
}

// Sent is Entries with those that have expired: they open nothing, but tell which slot their holder means.
func (v *Verifier) Sent(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) {
		c := new(claims.Entry)
		err := v.keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
		if errors.Is(err, token.ErrExpired) {
			issued := time.Unix(c.IssuedAt, 0)
			err = v.keys.Entry.Verify(tok, c, claims.AudienceEntry, issued) // everything else once more
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

func (v *Verifier) verifyEntry(tok string) (*claims.Entry, error) {
	c := new(claims.Entry)
	return c, v.keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
}

// EntryEnd is when an entry token ends that queue has just issued; the zero time when it does not verify, which means that the two
// services' secrets differ.
func (v *Verifier) EntryEnd(tok string) time.Time {
	c, err := v.entries.get(tok, v.now(), v.verifyEntry)
	if err != nil {
		return time.Time{}
	}
	return c.Expiry()
}
