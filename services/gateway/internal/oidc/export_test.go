package oidc

import "net/http"

// RolesOf are the roles of URR in the claims of an ID token.
func (p *Provider) RolesOf(claims map[string]any) []string { return p.rolesOf(claims) }

// SetTransport replaces the network.
func (p *Provider) SetTransport(t http.RoundTripper) { p.client.Transport = t }
