package identity

import (
	"fmt"
	"net/http"

	"urr.guru/pkg/claims"
)

// attemptName is how many bytes of an attempt's state are in the name of its cookie, so that several
// tabs can have an attempt each.
const attemptName = 8

// AttemptCookie is the name of the cookie of an attempt to sign in, by its state.
func AttemptCookie(state string) string { return attemptCookie + state[:min(attemptName, len(state))] }

func (v *Verifier) SignAttempt(a *claims.SignIn) (string, error) {
	return v.keys.Load().Session.Sign(a)
}

// Attempt returns this browser's attempt with a state. It fails when there is none, or it has expired.
func (v *Verifier) Attempt(h http.Header, state string) (*claims.SignIn, error) {
	a := new(claims.SignIn)
	if err := v.keys.Load().Session.Verify(cookie(h, AttemptCookie(state)), a, claims.AudienceSignIn, v.now()); err != nil {
		return nil, err
	}
	if a.State != state {
		return nil, fmt.Errorf("the cookie is of another attempt than %q", state)
	}
	return a, nil
}

// IDToken returns the identity provider's token that the browser keeps for the sign-out, "" for none.
func IDToken(h http.Header) string { return cookie(h, IDTokenCookie) }
