package identity

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"urr.guru/pkg/claims"
)

// stateBytes is how many bytes of an attempt's state are in the name of the attempt's cookie, so
// that each tab can have its own attempt.
const stateBytes = 8

// AttemptCookie returns the name of the cookie with the sign-in attempt that has this state.
func AttemptCookie(state string) string { return attemptCookie + state[:min(stateBytes, len(state))] }

// AttemptCookies returns the names of the cookies of sign-in attempts that the request carries.
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

// Attempt returns the browser's sign-in attempt with a state, from its cookie. It fails if there is
// no such attempt, or if it has expired.
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

// IDToken returns the identity provider's token, which the browser keeps for the sign-out, or "".
func IDToken(h http.Header) string {
	for tok := range cookies(h, IDTokenCookie) {
		return tok
	}
	return ""
}
