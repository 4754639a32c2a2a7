// Package claims holds formats that two services must read identically: the payloads of the
// platform's JWTs and the compact signed values that pages carry (VwrTicket, Anon).
package claims

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"urr.guru/pkg/ids"
)

// The audience (claim aud) of each kind of token. A token with another audience is refused.
const (
	AudienceVWR     = "vwr"
	AudienceEntry   = "entry"
	AudienceSession = "session"
	AudienceSignIn  = "sign-in"
)

// The longest lifetime of each kind of token.
const (
	Tier1Life  = 600 * time.Second // of a tier-1 token
	EntryLife  = 60 * time.Second  // of an entry token, which is renewed while its slot lasts
	SignInLife = 15 * time.Minute  // of an attempt to sign in at the identity provider
)

// UserPrefix is the start of a Tier1.UID that contains a user id, because the user signed in and
// joined through a lobby. Any other UID is the id of an anonymous visitor.
const UserPrefix = "user:"

// registeredClaims are the claims that every kind of token has. Times are Unix seconds.
type registeredClaims struct {
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
}

// newRegisteredClaims makes the claims of a token that is valid from now until expires.
func newRegisteredClaims(audience string, now, expires time.Time) registeredClaims {
	return registeredClaims{Audience: audience, IssuedAt: now.Unix(), ExpiresAt: expires.Unix()}
}

// Expiry returns the time from which the token is no longer accepted.
func (r registeredClaims) Expiry() time.Time { return time.Unix(r.ExpiresAt, 0) }

func (r registeredClaims) GetExpirationTime() (*jwt.NumericDate, error) {
	return numericDate(r.ExpiresAt), nil
}

func (r registeredClaims) GetIssuedAt() (*jwt.NumericDate, error) {
	return numericDate(r.IssuedAt), nil
}
func (r registeredClaims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }
func (r registeredClaims) GetIssuer() (string, error)              { return "", nil }

func (r registeredClaims) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings{r.Audience}, nil
}

func numericDate(unixSeconds int64) *jwt.NumericDate {
	if unixSeconds == 0 {
		return nil
	}
	return jwt.NewNumericDate(time.Unix(unixSeconds, 0))
}

// Tier1 is the payload of a tier-1 token (cookie urr-vwr-token), which shows that the position of
// this visitor has been served.
type Tier1 struct {
	registeredClaims

	EventID   string `json:"sub"`
	UID       string `json:"uid"`  // the visitor's anonymous id, or UserPrefix and a user id
	Tier      int    `json:"tier"` // always 1
	Position  int64  `json:"pos"`  // counted from 1
	Round     int64  `json:"act"`  // the start of the round, in µs since 1970
	RequestID string `json:"jti"`  // the same in every token of one visitor and round
}

// NewTier1 makes the payload of a token that is valid from now for Tier1Life.
func NewTier1(eventID, uid, requestID string, round, position int64, now time.Time) *Tier1 {
	return &Tier1{
		registeredClaims: newRegisteredClaims(AudienceVWR, now, now.Add(Tier1Life)),
		EventID:          eventID, UID: uid, Tier: 1, Position: position, Round: round, RequestID: requestID,
	}
}

func (c *Tier1) GetSubject() (string, error) { return c.EventID, nil }

// Validate checks the claims. The JWT library calls it after it has checked the signature.
func (c *Tier1) Validate() error {
	if c.Tier != 1 || !ids.ValidEventID(c.EventID) || c.UID == "" || c.Position < 1 || c.Round < 1 || c.RequestID == "" {
		return errors.New("claims: incomplete tier-1 token")
	}
	return nil
}

// Entry is the payload of a tier-2 entry token (cookie urr-entry-token, header
// x-queue-entry-token), which shows that this user has a slot in the shop.
type Entry struct {
	registeredClaims

	EventID string `json:"sub"`
	UserID  string `json:"uid"`
	SlotID  string `json:"jti"`
	Epoch   int64  `json:"epoch"` // epoch of the line, in µs since 1970
	End     int64  `json:"end"`   // of the slot, in ms since 1970; the token may end sooner
}

// NewEntry makes the payload of a token for a slot that lasts until end. The token is valid from
// now until end, at most for EntryLife. exp is in whole seconds and is rounded up, since a token
// that ended before its slot would lock its holder out; Expiry returns the exact end.
func NewEntry(eventID, userID, slotID string, epoch int64, end, now time.Time) *Entry {
	exp := now.Add(EntryLife)
	if end.Before(exp) {
		exp = end.Add(time.Second - time.Nanosecond)
	}
	return &Entry{
		registeredClaims: newRegisteredClaims(AudienceEntry, now, exp),
		EventID:          eventID, UserID: userID, SlotID: slotID, Epoch: epoch, End: end.UnixMilli(),
	}
}

// Expiry returns the end of the token or of its slot, whichever comes first.
func (c *Entry) Expiry() time.Time {
	exp, end := c.registeredClaims.Expiry(), time.UnixMilli(c.End)
	if end.Before(exp) {
		return end
	}
	return exp
}

func (c *Entry) GetSubject() (string, error) { return c.EventID, nil }

func (c *Entry) Validate() error {
	if !ids.ValidEventID(c.EventID) || !ids.ValidUser(c.UserID) || c.SlotID == "" || c.Epoch < 1 || c.End < 1 {
		return errors.New("claims: incomplete entry token")
	}
	return nil
}

// Session is the payload of a session (cookie urr-session, Authorization: Bearer).
type Session struct {
	registeredClaims

	UserID string   `json:"sub"`
	Roles  []string `json:"roles"`
	ID     string   `json:"jti"`          // UUIDv7, by which the session is revoked
	Millis int64    `json:"ms,omitempty"` // milliseconds of the issue time; iat has its whole seconds

	Person
}

// Person is what the identity provider states about a user who signed in.
type Person struct {
	Email  string   `json:"email,omitempty"` // verified, in lower case
	Claims []string `json:"said,omitempty"`  // each in the form "name=value"
}

// NewSession makes the payload of a session with a new id, from now until exp.
func NewSession(userID string, roles []string, now, exp time.Time) *Session {
	return &Session{
		registeredClaims: newRegisteredClaims(AudienceSession, now, exp), UserID: userID, Roles: roles,
		ID: ids.NewV7().String(), Millis: now.UnixMilli() - now.Unix()*1000,
	}
}

// Issued returns the issue time, exact to the millisecond if the payload has Millis.
func (c *Session) Issued() time.Time           { return time.UnixMilli(c.IssuedAt*1000 + c.Millis) }
func (c *Session) GetSubject() (string, error) { return c.UserID, nil }

func (c *Session) Validate() error {
	if !ids.ValidUser(c.UserID) || c.ID == "" || c.Millis < 0 || c.Millis > 999 {
		return errors.New("claims: incomplete session")
	}
	return nil
}

// SignIn is the payload of an attempt to sign in at the identity provider. The browser keeps it in
// the cookie urr-sign-in until it returns from the provider.
type SignIn struct {
	registeredClaims

	State    string `json:"jti"`      // id of the attempt; the identity provider sends it back through the browser
	Nonce    string `json:"nonce"`    // the identity provider returns it in the ID token
	Verifier string `json:"verifier"` // the secret of PKCE (RFC 7636)
	ReturnTo string `json:"to"`       // path to which the browser returns
}

// NewSignIn makes an attempt to sign in that is valid from now for SignInLife.
func NewSignIn(returnTo string, now time.Time) *SignIn {
	return &SignIn{
		registeredClaims: newRegisteredClaims(AudienceSignIn, now, now.Add(SignInLife)),
		State:            rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), ReturnTo: returnTo,
	}
}

// GetSubject returns no subject: nobody has signed in yet.
func (c *SignIn) GetSubject() (string, error) { return "", nil }

func (c *SignIn) Validate() error {
	if c.State == "" || c.Nonce == "" || c.Verifier == "" || c.ReturnTo == "" {
		return errors.New("claims: incomplete sign-in")
	}
	return nil
}
