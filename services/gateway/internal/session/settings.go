package session

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/services/gateway/internal/oidc"
)

// OIDC is the identity provider at which users sign in, by OpenID Connect.
type OIDC struct {
	// Issuer is the provider's URL, as https://accounts.example/realms/tickets; empty: nobody signs in
	// there. Changes of its metadata are seen at the next start, new keys are fetched when a token
	// names them.
	Issuer string `env:"OIDC_ISSUER"`
	// ClientID is the gateway's id at the provider; required with OIDC_ISSUER. Its redirect URI there is
	// PUBLIC_URL and /api/v1/auth/callback, after a sign-out PUBLIC_URL and /.
	ClientID string `env:"OIDC_CLIENT_ID"`
	// ClientSecret is the gateway's secret at the provider; empty for a public client. PKCE is used with
	// either.
	ClientSecret config.Secret `env:"OIDC_CLIENT_SECRET"`
	// Scopes are asked for beside openid.
	Scopes []string `env:"OIDC_SCOPES, default=profile,email"`
	// RolesClaim is the claim of the ID token with the user's roles, a string or a list: of just this
	// name, as https://tickets.example/roles, else dots lead into objects, as in realm_access.roles.
	RolesClaim string `env:"OIDC_ROLES_CLAIM, default=roles"`
	// AdminRole is what that claim calls operators.
	AdminRole string `env:"OIDC_ADMIN_ROLE, default=admin"`
	// StaffRole is what that claim calls door staff.
	StaffRole string `env:"OIDC_STAFF_ROLE, default=staff"`
	// EntitlementClaims are the claims of the ID token that presales may ask for, as tier or
	// groups; dots lead into objects. Values of more than 512 bytes together are left out.
	EntitlementClaims []string `env:"OIDC_ENTITLEMENT_CLAIMS"`
	// PublicURL is the gateway's own address in browsers, as https://tickets.example; required with
	// OIDC_ISSUER and PAY_HOST. Sign-ins at other host names are redirected there, so proxies must keep the
	// header Host.
	PublicURL string `env:"PUBLIC_URL"`
}

// Provider makes the client of the identity provider; nil: there is none.
func (o *OIDC) Provider(now func() time.Time) *oidc.Provider {
	if o.Issuer == "" {
		return nil
	}
	return oidc.New(oidc.Config{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes,
		RolesClaim: o.RolesClaim, Roles: map[string]string{o.AdminRole: RoleAdmin, o.StaffRole: RoleStaff}, EntitlementClaims: o.EntitlementClaims,
		PublicURL: o.PublicURL,
	}, now)
}

// Validate checks the settings that a provider needs. secure says whether browsers use https.
func (o *OIDC) Validate(secure bool) error {
	if o.Issuer == "" {
		return nil
	}
	var all []error
	for name, value := range map[string]string{"OIDC_ISSUER": o.Issuer, "PUBLIC_URL": o.PublicURL} {
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "https" && (secure || u.Scheme != "http") || u.RawQuery != "" || u.Fragment != "":
			all = append(all, config.Invalid(name, value, "must be a URL as https://tickets.example; http only without SECURE_COOKIES"))
		case name == "PUBLIC_URL" && u.Path != "":
			all = append(all, config.Invalid(name, value, "must not have a path, nor end with a slash"))
		}
	}
	if o.ClientID == "" {
		all = append(all, config.Missing("OIDC_CLIENT_ID", "must be the gateway's id at the provider"))
	}
	for _, name := range o.EntitlementClaims {
		if strings.Contains(name, "=") || name == "" {
			all = append(all, config.Invalid("OIDC_ENTITLEMENT_CLAIMS", name, "must be names of claims without ="))
		}
	}
	if o.AdminRole == o.StaffRole {
		all = append(all, config.Invalid("OIDC_STAFF_ROLE", o.StaffRole, "must differ from OIDC_ADMIN_ROLE"))
	}
	return errors.Join(all...)
}
