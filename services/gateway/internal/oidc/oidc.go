// Package oidc signs users in at an OpenID Connect provider: the authorization code flow of OpenID
// Connect Core 1.0 with PKCE (RFC 7636), and the sign-out of RP-Initiated Logout 1.0.
//
// The provider is looked up at the first sign-in, so that the gateway starts and serves without it.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/ids"
)

// Config of the provider, and of URR as its client.
type Config struct {
	// Issuer is the provider's URL, which it states in its tokens and under which its metadata is.
	Issuer string
	// ClientID and ClientSecret are URR's at the provider; no secret: a public client.
	ClientID, ClientSecret string
	// Scopes that are asked for beside openid.
	Scopes []string
	// RolesClaim is the claim of the ID token with the user's roles, a string or a list; dots lead
	// into objects, as in realm_access.roles.
	RolesClaim string
	// Roles are URR's roles by what the claim calls them.
	Roles map[string]string
	// PublicURL is the gateway's address in browsers, without a path.
	PublicURL string
}

// Failures of a sign-in.
var (
	// ErrInvalid: the provider does not accept the code, or its ID token does not verify.
	ErrInvalid = errors.New("the sign-in does not verify")
	// ErrUnavailable: the provider does not answer, or not as one.
	ErrUnavailable = errors.New("the sign-in provider is unavailable")
)

// CallbackPath is where the provider sends browsers back to.
const CallbackPath = "/api/v1/auth/callback"

// timeout of a request to the provider.
const timeout = 5 * time.Second

// User is who has signed in.
type User struct {
	ID    string
	Roles []string
	// IDToken is shown to the provider again at the sign-out.
	IDToken string
}

// Provider is safe for concurrent use.
type Provider struct {
	cfg    Config
	now    func() time.Time
	client *http.Client
	lookup singleflight.Group
	known  atomic.Pointer[metadata]
}

// metadata is what the provider states about itself.
type metadata struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	// endSession is where sessions are ended; nil: the provider does not offer it.
	endSession *url.URL
}

// New makes a Provider; now is the clock by which tokens expire.
func New(cfg Config, now func() time.Time) *Provider {
	return &Provider{cfg: cfg, now: now, client: &http.Client{Timeout: timeout}}
}

// Begin returns the URL of the provider's sign-in page for an attempt. It fails with ErrUnavailable
// while the provider cannot be looked up.
func (p *Provider) Begin(ctx context.Context, a *claims.SignIn) (string, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	return m.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Complete exchanges the code of an attempt for its user. It fails with ErrInvalid or
// ErrUnavailable.
func (p *Provider) Complete(ctx context.Context, a *claims.SignIn, code string) (*User, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := m.oauth.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		if refused := new(oauth2.RetrieveError); errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError {
			return nil, fmt.Errorf("%w: exchange the code: %w", ErrInvalid, err)
		}
		return nil, fmt.Errorf("%w: exchange the code: %w", ErrUnavailable, err)
	}
	raw, _ := answer.Extra("id_token").(string)
	tok, err := m.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: verify the ID token: %w", ErrInvalid, err)
	}
	var all map[string]any
	if err := tok.Claims(&all); err != nil {
		return nil, fmt.Errorf("%w: read the ID token: %w", ErrInvalid, err)
	}
	// OpenID Connect Core 1.0, "ID Token Validation": with several audiences the token must be authorized for this client.
	if azp, ok := all["azp"].(string); (len(tok.Audience) > 1 || ok) && azp != p.cfg.ClientID {
		return nil, fmt.Errorf("%w: the ID token is authorized for client %q", ErrInvalid, azp)
	}
	if tok.Nonce == "" || tok.Nonce != a.Nonce {
		return nil, fmt.Errorf("%w: the ID token has another nonce", ErrInvalid)
	}
	return &User{ID: userID(tok.Subject), Roles: p.roles(all), IDToken: raw}, nil
}

// EndSession returns the URL that ends the provider's session, "" when it offers none or was not
// looked up yet. idToken may be empty; the provider may then ask the user.
func (p *Provider) EndSession(idToken string) string {
	m := p.known.Load()
	if m == nil || m.endSession == nil {
		return ""
	}
	u := *m.endSession
	q := u.Query()
	q.Set("client_id", p.cfg.ClientID)
	q.Set("post_logout_redirect_uri", p.cfg.PublicURL+"/")
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// metadata looks the provider up unless it is known. Concurrent sign-ins share one look-up.
func (p *Provider) metadata(ctx context.Context) (*metadata, error) {
	if m := p.known.Load(); m != nil {
		return m, nil
	}
	// The look-up is for all who wait, so it outlives the request that began it.
	found := p.lookup.DoChan("", func() (any, error) { return p.discover(context.WithoutCancel(ctx)) })
	select {
	case r := <-found:
		if r.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.Err)
		}
		m, _ := r.Val.(*metadata)
		return m, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("look up the sign-in provider: %w", err)
	}
	var more struct {
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("read the sign-in provider's metadata: %w", err)
	}
	endpoint := found.Endpoint()
	// Trying both ways, as the library would, can use a code up.
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	if p.cfg.ClientSecret != "" && (len(more.AuthMethods) == 0 || slices.Contains(more.AuthMethods, "client_secret_basic")) {
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	m := &metadata{
		oauth: oauth2.Config{
			ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint,
			RedirectURL: p.cfg.PublicURL + CallbackPath, Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
		},
		verifier: found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}),
	}
	if more.EndSession != "" {
		if m.endSession, err = url.Parse(more.EndSession); err != nil {
			return nil, fmt.Errorf("the sign-in provider's end_session_endpoint: %w", err)
		}
	}
	p.known.Store(m)
	return m, nil
}

// roles are the roles of URR that the claim names.
func (p *Provider) roles(all map[string]any) []string {
	var value any = all
	for name := range strings.SplitSeq(p.cfg.RolesClaim, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	named, _ := value.([]any)
	if one, ok := value.(string); ok {
		named = []any{one}
	}
	found := []string{}
	for _, n := range named {
		name, _ := n.(string)
		if role, ok := p.cfg.Roles[name]; ok && !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	slices.Sort(found)
	return found
}

// userID is the provider's subject where it is a user id of URR, and else a hash of it: a subject
// has up to 255 characters, of which some providers use "|" and ":".
func userID(subject string) string {
	if ids.ValidUser(subject) {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	return "sub-" + base64.RawURLEncoding.EncodeToString(sum[:])
}
