package oidc

import (
	"net/http"

	"urr.guru/pkg/claims"
)

// RolesOf returns the roles of URR in the claims of an ID token.
func (p *Provider) RolesOf(all map[string]any) []string { return p.rolesOf(all) }

// PersonOf returns the person in the claims of an ID token.
func (p *Provider) PersonOf(all map[string]any) claims.Person { return p.personOf(all) }

// SetTransport replaces the network by a transport of the test.
func (p *Provider) SetTransport(t http.RoundTripper) { p.client.Transport = t }
