// Package identity verifies the credentials of a request (session, visitor cookie, tokens of both
// tiers) and returns their claims. It checks signatures, audiences and lifetimes. Package edge
// decides which routes a request with these claims may call.
package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/token"
)

// Keys are the keys of each kind of token. A gateway of the waiting rooms has only Visitor and
// Ticket.
type Keys struct {
	Session token.KeySet
	Visitor token.KeySet // of visitors' cookies, challenges and the tags of sessions
	Tier1   token.KeySet
	Ticket  token.KeySet // of tier-1 tickets
	Entry   token.KeySet
}

// keyRing has the Keys and the keys derived from them.
type keyRing struct {
	Keys

	visitorID, ticket, challenge, sessionTag token.MACSet
}

// Revocations knows the sessions that were revoked.
type Revocations interface {
	// HasBeenRead reports whether the list was ever read. Before, no session can be trusted.
	HasBeenRead() bool
	IsRevoked(c *claims.Session) bool
}

// Verifier verifies the credentials of requests, and signs cookies. It is safe for concurrent use.
type Verifier struct {
	keys    atomic.Pointer[keyRing] // a function that needs several keys loads it once
	revoked Revocations
	now     func() time.Time
	secure  bool
	// The names of two cookies that every poll carries.
	sessionCookie, anonCookie string
	sessions                  *tokenCache[*claims.Session]
	tier1                     *tokenCache[*claims.Tier1]
	entries                   *tokenCache[*claims.Entry]
}

// New makes a Verifier that keeps up to size verified tokens of each kind; now is the clock.
func New(keys Keys, size int, revoked Revocations, now func() time.Time) (*Verifier, error) {
	v := (&Verifier{revoked: revoked, now: now}).WithSecureCookies(false)
	v.Rekey(keys)
	var err [3]error
	v.sessions, err[0] = newTokenCache[*claims.Session](kindSession, size, now)
	v.tier1, err[1] = newTokenCache[*claims.Tier1](kindTier1, size, now)
	v.entries, err[2] = newTokenCache[*claims.Entry](kindEntry, size, now)
	if e := errors.Join(err[:]...); e != nil {
		return nil, fmt.Errorf("token cache: %w", e)
	}
	return v, nil
}

// WithSecureCookies makes the Verifier read the cookie names that Cookies writes when
// Cookies.Secure has the value secure. It returns the Verifier.
func (v *Verifier) WithSecureCookies(secure bool) *Verifier {
	v.secure = secure
	v.sessionCookie, v.anonCookie = cookieName(SessionCookie, secure), cookieName(AnonCookie, secure)
	return v
}

// Rekey replaces the keys for signing and verifying, also for tokens that were verified before.
func (v *Verifier) Rekey(keys Keys) {
	v.keys.Store(&keyRing{
		Keys: keys, visitorID: keys.Visitor.Derive(claims.LabelAnon), ticket: keys.Ticket.Derive(claims.LabelVwrTicket),
		challenge: keys.Visitor.Derive(claims.LabelChallenge), sessionTag: keys.Visitor.Derive(claims.LabelSession),
	})
}

// Session returns the session of the Bearer token, else that of the cookie. It fails with
// errs.ErrUnauthenticated if there is neither, with errs.ErrSessionInvalid if they do not verify,
// have expired or were revoked, and with errs.ErrUnavailable while the revocations are unknown.
func (v *Verifier) Session(h http.Header) (*claims.Session, error) {
	tok := bearerToken(h)
	c, sent := v.validSession(tok), tok != ""
	if c == nil {
		var cookieSent bool
		c, cookieSent = v.cookieSession(h)
		sent = sent || cookieSent
	}
	switch {
	case c != nil && !v.revoked.HasBeenRead():
		return nil, errs.ErrUnavailable
	case c != nil:
		return c, nil
	case sent:
		return nil, errs.ErrSessionInvalid
	default:
		return nil, errs.ErrUnauthenticated
	}
}

// cookieSession returns the valid session in the cookies, and whether there was a session cookie.
// Of two different valid sessions it returns none: an attacker has set one, and nothing says which.
func (v *Verifier) cookieSession(h http.Header) (c *claims.Session, sent bool) {
	for tok := range cookies(h, v.sessionCookie) {
		sent = true
		switch found := v.validSession(tok); {
		case found == nil:
		case c == nil:
			c = found
		case c.ID != found.ID:
			return nil, true
		}
	}
	return c, sent
}

// Sessions returns all valid sessions, of the Bearer token and of the cookies.
func (v *Verifier) Sessions(h http.Header) []*claims.Session {
	var found []*claims.Session
	add := func(tok string) {
		if c := v.validSession(tok); c != nil {
			found = append(found, c)
		}
	}
	add(bearerToken(h))
	for tok := range cookies(h, v.sessionCookie) {
		add(tok)
	}
	return found
}

// validSession returns the session of a token, nil if the token is no valid session.
func (v *Verifier) validSession(tok string) *claims.Session {
	if tok == "" {
		return nil
	}
	c, err := v.sessions.get(tok, v.now(), v.keys.Load(), v.verifySession)
	if err != nil {
		return nil
	}
	if v.revoked.IsRevoked(c) {
		countRefusal(kindSession, reasonRevoked)
		return nil
	}
	return c
}

// verifySession checks the session's signature, or without a key for it the session's tag. Who can
// make tags is no operator: roles are believed by the signature only.
func (v *Verifier) verifySession(keys *keyRing, tok string) (*claims.Session, error) {
	c := new(claims.Session)
	signed, tagged, err := claims.UntagSession(keys.sessionTag, tok)
	switch {
	case err != nil:
		return nil, err
	case keys.Session.Current() != "":
		return c, keys.Session.Verify(signed, c, claims.AudienceSession, v.now())
	case !tagged:
		return nil, claims.ErrForged
	}
	err = token.Read(signed, c, claims.AudienceSession, v.now())
	c.Roles, c.Person = nil, claims.Person{}
	return c, err
}

// SignSession signs a session, and tags it for the gateways of the waiting rooms.
func (v *Verifier) SignSession(c *claims.Session) (string, error) {
	keys := v.keys.Load()
	signed, err := keys.Session.Sign(c)
	if err != nil {
		return "", err
	}
	return claims.TagSession(keys.sessionTag, signed), nil
}

// Visitor returns the content of the cookie urr-visitorID; ok is false if there is none that
// verifies.
func (v *Verifier) Visitor(h http.Header) (a claims.Anon, ok bool) {
	for sealed := range cookies(h, v.anonCookie) {
		a, err := claims.OpenAnon(v.keys.Load().visitorID, sealed)
		if err == nil {
			return a, true
		}
		countRefusal(kindAnon, reasonInvalid)
	}
	return a, false
}

// SealVisitor makes the value of the cookie urr-visitorID.
func (v *Verifier) SealVisitor(a claims.Anon) string { return a.Seal(v.keys.Load().visitorID) }

// ShowsFormerPosition reports whether the request shows a position of the visitor's former id: by
// its tier-1 ticket, or without one by its tier-1 token, if there is a key for these. event is the position's event; "": any.
func (v *Verifier) ShowsFormerPosition(h http.Header, event string, a claims.Anon) bool {
	if a.Former == uuid.Nil {
		return false
	}
	former := a.Former.String()
	if raw := firstValue(h, VWRTicketHeader); raw != "" {
		_, err := claims.OpenVwrTicket(v.keys.Load().ticket, event, former, raw)
		return err == nil
	}
	if v.keys.Load().Tier1.Current() == "" {
		return false
	}
	for tok := range cookies(h, Tier1Cookie) {
		c, err := v.tier1.get(tok, v.now(), v.keys.Load(), v.verifyTier1)
		if err == nil && c.UID == former && (event == "" || c.EventID == event) {
			return true
		}
	}
	return false
}

// SealChallenge signs the challenge of a proof of work for this event and visitor.
func (v *Verifier) SealChallenge(c claims.Challenge, event, visitorID string) string {
	return c.Seal(v.keys.Load().challenge, event, visitorID)
}

// OpenChallenge opens a challenge. ok is false unless it belongs to this event and visitor. The
// caller compares the round and the time.
func (v *Verifier) OpenChallenge(event, visitorID, sealed string) (c claims.Challenge, ok bool) {
	c, err := claims.OpenChallenge(v.keys.Load().challenge, event, visitorID, sealed)
	return c, err == nil
}

// Tier1Ticket returns the content and the text of the request's tier-1 ticket. The bool is false
// unless the ticket is for this event, and for the visitor or, after a lobby, for the user.
func (v *Verifier) Tier1Ticket(h http.Header, event, visitorID, user string) (claims.VwrTicket, string, bool) {
	raw := firstValue(h, VWRTicketHeader)
	if raw == "" {
		return claims.VwrTicket{}, "", false
	}
	keys := v.keys.Load().ticket
	t, err := claims.OpenVwrTicket(keys, event, visitorID, raw)
	if err != nil && user != "" {
		t, err = claims.OpenVwrTicket(keys, event, claims.UserPrefix+user, raw)
	}
	if err != nil {
		countRefusal(kindTicket, reasonInvalid)
	}
	return t, raw, err == nil
}

// Tier1Token returns the claims of a tier-1 token for this event, and for the visitor or, after a
// lobby, for the user; nil if there is none. The caller compares the round.
func (v *Verifier) Tier1Token(h http.Header, event, visitorID, user string) *claims.Tier1 {
	for tok := range cookies(h, Tier1Cookie) {
		c, err := v.tier1.get(tok, v.now(), v.keys.Load(), v.verifyTier1)
		if err != nil || c.EventID != event {
			continue
		}
		if visitorID != "" && c.UID == visitorID || user != "" && c.UID == claims.UserPrefix+user {
			return c
		}
	}
	return nil
}

func (v *Verifier) verifyTier1(keys *keyRing, tok string) (*claims.Tier1, error) {
	c := new(claims.Tier1)
	return c, keys.Tier1.Verify(tok, c, claims.AudienceVWR, v.now())
}

// EntryTokens returns the claims of the entry tokens in the header, where each tab may send its
// own, and in the cookie. It ignores tokens of other users and, unless event is "", of other
// events. An element is nil if there is no such token. The caller checks the epoch.
func (v *Verifier) EntryTokens(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) {
		return v.entries.get(tok, v.now(), v.keys.Load(), v.verifyEntry)
	})
}

// EntryToken returns the first valid token of EntryTokens, nil if there is none.
func (v *Verifier) EntryToken(h http.Header, event, user string) *claims.Entry {
	e := v.EntryTokens(h, event, user)
	return cmp.Or(e[0], e[1])
}

// EntryTokensWithExpired returns what EntryTokens returns, and also expired tokens, since they
// still identify a slot.
func (v *Verifier) EntryTokensWithExpired(h http.Header, event, user string) [2]*claims.Entry {
	return v.entriesOf(h, event, user, func(tok string) (*claims.Entry, error) {
		c, keys := new(claims.Entry), v.keys.Load()
		err := keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
		if errors.Is(err, token.ErrExpired) {
			issued := time.Unix(c.IssuedAt, 0)
			err = keys.Entry.Verify(tok, c, claims.AudienceEntry, issued) // check all but the expiry
		}
		return c, err
	})
}

func (v *Verifier) entriesOf(h http.Header, event, user string, read func(string) (*claims.Entry, error)) (found [2]*claims.Entry) {
	if user == "" {
		return found
	}
	verify := func(tok string) *claims.Entry {
		if c, err := read(tok); err == nil && c.UserID == user && (event == "" || c.EventID == event) {
			return c
		}
		return nil
	}
	header := firstValue(h, EntryHeader)
	if header != "" {
		found[0] = verify(header)
	}
	for tok := range cookies(h, EntryCookie) {
		if found[1] = found[0]; tok != header { // equal in most requests of a page
			found[1] = verify(tok)
		}
		if found[1] != nil {
			break
		}
	}
	return found
}

func (v *Verifier) verifyEntry(keys *keyRing, tok string) (*claims.Entry, error) {
	c := new(claims.Entry)
	return c, keys.Entry.Verify(tok, c, claims.AudienceEntry, v.now())
}

// EntryTokenEnd returns the expiry of an entry token that the queue service has just issued. It
// returns zero if the token does not verify: then the secrets of the two services differ.
func (v *Verifier) EntryTokenEnd(tok string) time.Time {
	c, err := v.entries.get(tok, v.now(), v.keys.Load(), v.verifyEntry)
	if err != nil {
		return time.Time{}
	}
	return c.Expiry()
}
