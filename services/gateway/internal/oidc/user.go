package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/ids"
)

// rolesOf returns the user's roles in URR according to the claims of the ID token.
func (p *Provider) rolesOf(idClaims map[string]any) []string {
	found := []string{}
	for _, n := range valuesOf(idClaims, p.cfg.RolesClaim) {
		name, _ := n.(string)
		if role, ok := p.cfg.Roles[name]; ok && name != "" && !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	slices.Sort(found)
	return found
}

// personOf returns the user's e-mail address, if the provider has verified it, and the claims that
// can entitle to presales: strings, numbers and booleans, or lists of these.
func (p *Provider) personOf(idClaims map[string]any) (found claims.Person) {
	email, _ := idClaims["email"].(string)
	// Some providers send the boolean as a string.
	if verified := idClaims["email_verified"]; len(email) <= ids.MaxEmail && (verified == true || verified == "true") {
		found.Email = strings.ToLower(email)
	}
	for _, name := range p.cfg.EntitlementClaims {
		for _, value := range valuesOf(idClaims, name) {
			switch value.(type) {
			case string, float64, bool:
				found.Claims = append(found.Claims, fmt.Sprintf("%s=%v", name, value))
			}
		}
	}
	return found
}

// valuesOf returns the values of a claim: its list, or its only value. A claim with exactly this
// name comes first. Otherwise dots lead into objects.
func valuesOf(idClaims map[string]any, name string) []any {
	value, literal := idClaims[name]
	if !literal {
		value = nestedClaim(idClaims, name)
	}
	if list, ok := value.([]any); ok {
		return list
	}
	return []any{value}
}

// nestedClaim returns the value at a path with dots, nil when there is none.
func nestedClaim(all map[string]any, path string) any {
	var value any = all
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// hashPrefix is the prefix of user ids that are hashes of the provider's subjects (its user ids).
const hashPrefix = "sub-"

// userID returns the provider's subject if it is a valid user id of URR, else a hash of it: a
// subject can have up to 255 characters, also "|" and ":". A subject that looks like a hash is
// hashed too, so that no user can become another one by choosing a subject.
func userID(subject string) string {
	if ids.ValidUser(subject) && !strings.HasPrefix(subject, hashPrefix) {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}
