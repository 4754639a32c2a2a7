package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// providerMetadata is what the identity provider publishes about itself.
type providerMetadata struct {
	issuer   string
	endpoint oauth2.Endpoint
	// basicAuth says that the token endpoint reads the secret from the header Authorization.
	basicAuth bool
	keys      *oidc.RemoteKeySet
	checks    *oidc.Config
	// endSession is the provider's page that ends its session; nil: the provider has none.
	endSession *url.URL
}

// metadata returns the provider's metadata, which it fetches at the first call. Concurrent calls share
// one fetch. It fails with ErrUnavailable.
func (p *Provider) metadata(ctx context.Context) (*providerMetadata, error) {
	if m := p.cached.Load(); m != nil {
		return m, nil
	}
	// Other requests may wait for the same fetch, so the end of this request must not end it.
	found := p.lookup.DoChan("", func() (any, error) { return p.fetchMetadata(context.WithoutCancel(ctx)) })
	select {
	case r := <-found:
		if r.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.Err)
		}
		m, _ := r.Val.(*providerMetadata)
		return m, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

func (p *Provider) fetchMetadata(ctx context.Context) (*providerMetadata, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("look up the sign-in provider: %w", err)
	}
	var document struct {
		Issuer      string   `json:"issuer"`
		Keys        string   `json:"jwks_uri"`
		Algorithms  []string `json:"id_token_signing_alg_values_supported"`
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&document); err != nil {
		return nil, fmt.Errorf("read the sign-in provider's metadata: %w", err)
	}
	m := &providerMetadata{
		issuer: document.Issuer, endpoint: found.Endpoint(), keys: oidc.NewRemoteKeySet(ctx, document.Keys),
		// client_secret_basic is the default. (OpenID Connect Discovery 1.0, section 3)
		basicAuth: len(document.AuthMethods) == 0 || slices.Contains(document.AuthMethods, "client_secret_basic"),
		checks: &oidc.Config{
			ClientID: p.cfg.ClientID, Now: p.now,
			SupportedSigningAlgs: slices.DeleteFunc(document.Algorithms, func(a string) bool { return !slices.Contains(algorithms, a) }),
		},
	}
	if document.EndSession != "" {
		if m.endSession, err = url.Parse(document.EndSession); err != nil {
			return nil, fmt.Errorf("the sign-in provider's end_session_endpoint: %w", err)
		}
	}
	p.cached.Store(m)
	return m, nil
}

// algorithms are those by which an ID token may be signed, all with a public key. If the provider
// supports none of them according to its metadata, it is RS256.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// verifyIDToken checks an ID token. It fails with ErrInvalid, or with ErrUnavailable if the key
// whose id is in the token cannot be fetched.
func (m *providerMetadata) verifyIDToken(ctx context.Context, raw string) (*oidc.IDToken, error) {
	keys := &keySet{RemoteKeySet: m.keys}
	tok, err := oidc.NewVerifier(m.issuer, keys, m.checks).Verify(ctx, raw)
	switch {
	case keys.fetchErr != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, keys.fetchErr)
	case err != nil:
		return nil, fmt.Errorf("%w: verify the ID token: %w", ErrInvalid, err)
	}
	return tok, nil
}

// keySet records whether fetching the provider's keys has failed. The verifier returns the same
// error for that as for a wrong signature.
type keySet struct {
	*oidc.RemoteKeySet

	fetchErr error
}

func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, jwt)
	if errors.Unwrap(err) != nil { // only the error of a fetch has a cause
		k.fetchErr = err
	}
	return payload, err
}
