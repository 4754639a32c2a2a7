package dispatch

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
)

// originHeader is the header that the CDN adds to every request that it forwards.
const originHeader = "X-Cloudfront-Verified"

// originGuard refuses requests that bypassed the CDN and thus its rules and its flood protection.
type originGuard struct {
	accepted atomic.Pointer[secretDigests]
}

// secretDigests are hashes of the accepted values. All have one length, so that a comparison takes
// constant time.
type secretDigests [][sha256.Size]byte

// setSecrets replaces the comma-separated secrets. Without any secret nothing is refused.
func (g *originGuard) setSecrets(secrets config.Secret) {
	var all secretDigests
	for secret := range strings.SplitSeq(secrets.Reveal(), ",") {
		if secret != "" {
			all = append(all, sha256.Sum256([]byte(secret)))
		}
	}
	g.accepted.Store(&all)
}

// checkHeader removes originHeader from a request, and fails with errs.ErrOriginRequired unless it had
// an accepted value.
func (g *originGuard) checkHeader(h http.Header) error {
	sent, accepted := h[originHeader], *g.accepted.Load()
	if sent != nil {
		delete(h, originHeader)
	}
	if len(accepted) == 0 {
		return nil
	}
	if len(sent) != 1 {
		return errs.ErrOriginRequired
	}
	digest, found := sha256.Sum256([]byte(sent[0])), 0
	for _, want := range accepted {
		found |= subtle.ConstantTimeCompare(digest[:], want[:])
	}
	if found == 0 {
		return errs.ErrOriginRequired
	}
	return nil
}
