package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"urr.guru/pkg/ids"
)

// rolesOf returns the roles in URR that the claims of the user's ID token give.
func (p *Provider) rolesOf(idClaims map[string]any) []string {
	value, literal := idClaims[p.cfg.RolesClaim]
	if !literal {
		value = nestedClaim(idClaims, p.cfg.RolesClaim)
	}
	named, _ := value.([]any)
	if one, ok := value.(string); ok {
		named = []any{one}
	}
	found := []string{}
	for _, n := range named {
		name, _ := n.(string)
		if role, ok := p.cfg.Roles[name]; ok && name != "" && !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	slices.Sort(found)
	return found
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

// userID returns the provider's subject if it is a valid user id of URR, else a hash of it: a subject
// has up to 255 characters, of which some providers use "|" and ":". A subject that looks like a hash
// is hashed too, so that nobody becomes another user by their choice of subject.
func userID(subject string) string {
	if ids.ValidUser(subject) && !strings.HasPrefix(subject, hashPrefix) {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}
