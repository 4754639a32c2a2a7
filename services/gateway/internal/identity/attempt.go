package identity

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"urr.guru/pkg/claims"
)

// attemptName is how many bytes of an attempt's state are in the name of its cookie, so that several
// tabs can have an attempt each.
const attemptName = 8

// AttemptCookie is the name of the cookie of an attempt to sign in, by its state.
func AttemptCookie(state string) string { return attemptCookie + state[:min(attemptName, len(state))] }

// AttemptCookies returns the names of the cookies of attempts that the request has.
func AttemptCookies(r *http.Request) (names []string) {
	for _, c := range r.Cookies() {
		if name := strings.TrimPrefix(c.Name, hostPrefix); strings.HasPrefix(name, attemptCookie) {
			names = append(names, name)
		}
	}
	return names
}

func (v *Verifier) SignAttempt(a *claims.SignIn) (string, error) {
	return v.keys.Load().Session.Sign(a)
}

// Attempt returns this browser's attempt with a state. It fails when there is none, or it has expired.
func (v *Verifier) Attempt(h http.Header, state string) (*claims.SignIn, error) {
	err := errors.New("there is no attempt")
	for tok := range cookies(h, cookieName(AttemptCookie(state), v.secure)) {
		a := new(claims.SignIn)
		if err = v.keys.Load().Session.Verify(tok, a, claims.AudienceSignIn, v.now()); err != nil {
			continue
		}
		if a.State == state {
			return a, nil
		}
		err = fmt.Errorf("the cookie is of another attempt than %q", state)
	}
	return nil, err
}

// IDToken returns the identity provider's token that the browser keeps for the sign-out, "" for none.
func IDToken(h http.Header) string {
	for tok := range cookies(h, IDTokenCookie) {
		return tok
	}
	return ""
}
