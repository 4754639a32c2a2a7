package oidc

import (
	"net/http"

	"urr.guru/pkg/claims"
)

// RolesOf returns the roles in URR according to the claims of an ID token.
func (p *Provider) RolesOf(all map[string]any) []string { return p.rolesOf(all) }

// PersonOf returns the person that the claims of an ID token describe.
func (p *Provider) PersonOf(all map[string]any) claims.Person { return p.personOf(all) }

// SetTransport replaces the network by a transport of the test.
func (p *Provider) SetTransport(t http.RoundTripper) { p.client.Transport = t }
