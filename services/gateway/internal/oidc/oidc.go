// Package oidc signs users in at an OpenID Connect provider: the authorization code flow of OpenID
// Connect Core 1.0 with PKCE (RFC 7636), and the sign-out of RP-Initiated Logout 1.0.
//
// The provider's metadata is read at the first sign-in, so that the gateway starts without it.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"urr.guru/pkg/claims"
)

// Config describes the identity provider, and URR as its client.
type Config struct {
	// Issuer is the provider's URL. Its tokens contain it, and its metadata is under it.
	Issuer string
	// ClientID and ClientSecret identify URR at the provider; a public client has no secret.
	ClientID, ClientSecret string
	// Scopes are requested in addition to openid.
	Scopes []string
	// RolesClaim is the claim of the ID token with the user's roles, a string or a list. A claim of
	// exactly this name comes first; else dots lead into objects, as in realm_access.roles.
	RolesClaim string
	// Roles has URR's role for each name that the claim may contain.
	Roles map[string]string
	// EntitlementClaims are the claims of the ID token that can entitle users to presales; dots lead
	// into objects as in RolesClaim.
	EntitlementClaims []string
	// PublicURL is the gateway's address in browsers, without a path.
	PublicURL string
}

// Failures of a sign-in.
var (
	// ErrInvalid: the provider does not accept the request or the code, or its ID token does not
	// verify.
	ErrInvalid = errors.New("the sign-in does not verify")
	// ErrUnavailable: the provider does not answer, or its answer is not one of OpenID Connect.
	ErrUnavailable = errors.New("the sign-in provider is unavailable")
)

// CallbackPath is where the provider sends browsers back to.
const CallbackPath = "/api/v1/auth/callback"

const (
	// timeout is the time-out of a request to the provider.
	timeout = 5 * time.Second
	// endTimeout is the time limit for finding the provider's sign-out page. The user waits for it,
	// and the session here ends without it.
	endTimeout = 2 * time.Second
	// maxExchanges is the most calls of the provider's token endpoint in progress: a crowd must not
	// exceed what the provider allows. Further sign-ins wait for exchangeWait, then they fail.
	maxExchanges = 32
	// exchangeWait is how long a sign-in waits while maxExchanges calls are in progress.
	exchangeWait = 2 * time.Second
)

// User is a user who has signed in at the provider.
type User struct {
	ID    string
	Roles []string
	claims.Person
	// IDToken is sent to the provider when the user signs out.
	IDToken string
}

// Provider is the client of one identity provider. It is safe for concurrent use.
type Provider struct {
	cfg    Config
	now    func() time.Time
	client *http.Client
	secret atomic.Pointer[string]
	lookup singleflight.Group
	cached atomic.Pointer[providerMetadata]
	// exchanges is a semaphore: it has one element for each exchange of a code in progress.
	exchanges chan struct{}
}

// New makes a Provider; now is the clock by which tokens expire.
func New(cfg Config, now func() time.Time) *Provider {
	p := &Provider{cfg: cfg, now: now, client: &http.Client{Timeout: timeout}, exchanges: make(chan struct{}, maxExchanges)}
	p.SetSecret(cfg.ClientSecret)
	return p
}

// SetSecret replaces the client secret of Config. It may be called while users sign in.
func (p *Provider) SetSecret(secret string) { p.secret.Store(&secret) }

// Begin returns the URL of the provider's sign-in page for an attempt. It fails with ErrUnavailable
// while the provider's metadata cannot be read.
func (p *Provider) Begin(ctx context.Context, a *claims.SignIn) (string, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	return p.oauthConfig(m).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Complete exchanges the code of an attempt for its user. It fails with ErrInvalid or
// ErrUnavailable.
func (p *Provider) Complete(ctx context.Context, a *claims.SignIn, code string) (*User, error) {
	select {
	case p.exchanges <- struct{}{}:
		defer func() { <-p.exchanges }()
	case <-time.After(exchangeWait):
		return nil, fmt.Errorf("%w: %d sign-ins wait for it", ErrUnavailable, maxExchanges)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := p.oauthConfig(m).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, fmt.Errorf("%w: exchange the code: %w", exchangeFailure(err), err)
	}
	raw, _ := answer.Extra("id_token").(string)
	tok, err := m.verifyIDToken(ctx, raw)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := tok.Claims(&all); err != nil {
		return nil, fmt.Errorf("%w: read the ID token: %w", ErrInvalid, err)
	}
	// With several audiences the token must be authorized for this client (OpenID Connect Core 1.0).
	if azp, ok := all["azp"].(string); (len(tok.Audience) > 1 || ok) && azp != p.cfg.ClientID {
		return nil, fmt.Errorf("%w: the ID token is authorized for client %q", ErrInvalid, azp)
	}
	if tok.Nonce == "" || tok.Nonce != a.Nonce {
		return nil, fmt.Errorf("%w: the ID token has another nonce", ErrInvalid)
	}
	if tok.Subject == "" {
		return nil, fmt.Errorf("%w: the ID token has no subject", ErrInvalid)
	}
	return &User{ID: userID(tok.Subject), Roles: p.rolesOf(all), Person: p.personOf(all), IDToken: raw}, nil
}

// exchangeFailure returns ErrInvalid if the provider has refused the code, else ErrUnavailable. A
// status such as 429 or 503 is no refusal, since it asks for another attempt.
func exchangeFailure(err error) error {
	refused := new(oauth2.RetrieveError)
	if !errors.As(err, &refused) {
		return ErrUnavailable
	}
	switch status := refused.Response.StatusCode; {
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return ErrUnavailable
	default:
		return ErrInvalid
	}
}

// EndSession returns the URL that ends the user's session at the provider, "" if the provider has none.
// Without idToken ("") the provider may ask the user. It fails with ErrUnavailable while the provider's
// metadata cannot be read.
func (p *Provider) EndSession(ctx context.Context, idToken string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	m, err := p.metadata(ctx)
	if err != nil || m.endSession == nil {
		return "", err
	}
	u := *m.endSession
	q := u.Query()
	q.Set("client_id", p.cfg.ClientID)
	q.Set("post_logout_redirect_uri", p.cfg.PublicURL+"/")
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (p *Provider) oauthConfig(m *providerMetadata) *oauth2.Config {
	secret, endpoint := *p.secret.Load(), m.endpoint
	// Otherwise the library would try both styles, and the first try could use up the code.
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	if secret != "" && m.basicAuth {
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: secret, Endpoint: endpoint,
		RedirectURL: p.cfg.PublicURL + CallbackPath, Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}
