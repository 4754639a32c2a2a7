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

// originHeader is what a CDN adds to every request that it passes on.
const originHeader = "X-Cloudfront-Verified"

// originGuard refuses requests that came around the CDN, where its rules and its shield against
// floods do not apply. It vouches for nothing else: every other check is made all the same.
type originGuard struct {
	accepted atomic.Pointer[digests]
}

// digests of the accepted values: of one length, so that a comparison takes the same time for all.
type digests [][sha256.Size]byte

// accept any of the comma-separated secrets from now on; without one nothing is refused.
func (g *originGuard) accept(secrets config.Secret) {
	var all digests
	for secret := range strings.SplitSeq(secrets.Reveal(), ",") {
		if secret != "" {
			all = append(all, sha256.Sum256([]byte(secret)))
		}
	}
	g.accepted.Store(&all)
}

// check takes the header away, whoever sent it, and fails with errs.ErrOriginRequired.
func (g *originGuard) check(h http.Header) error {
	said, accepted := h[originHeader], *g.accepted.Load()
	delete(h, originHeader)
	if len(accepted) == 0 {
		return nil
	}
	if len(said) != 1 {
		return errs.ErrOriginRequired
	}
	digest, found := sha256.Sum256([]byte(said[0])), 0
	for _, want := range accepted {
		found |= subtle.ConstantTimeCompare(digest[:], want[:])
	}
	if found == 0 {
		return errs.ErrOriginRequired
	}
	return nil
}
