package rpc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"urr.guru/pkg/config"
)

// A call is signed with a key that only its caller and its callee have, so that a compromised
// service cannot forge calls of another one. The metadata key `urr-auth` has the value
//
//	v1 <caller> <unix seconds> <mac>
//
// where mac is the base64url HMAC-SHA256 of version, caller, callee, full method and seconds. Each
// part except the seconds (u64, big-endian) is preceded by its length. The body is not covered: TLS
// protects it in transit, and a signature counts only on a connection with the caller's certificate
// (requireCertifiedAs). Where a mesh encrypts instead, its identities must bind the connection.
const authKey = "urr-auth"

// maxSkew is how far the clocks of caller and callee may differ, and how long a signature is valid.
const maxSkew = 30 * time.Second

// minKey is the shortest key that is accepted, in bytes.
const minKey = 32

// parsePairKeys parses the keys that a caller and a callee share, key[|key…]. The first signs and
// all verify, so that keys can be replaced while both run. The separator is not a comma, which
// would end the entry of the caller in RPC_ACCEPT.
func parsePairKeys(s config.Secret) ([][]byte, error) {
	var keys [][]byte
	for key := range strings.SplitSeq(s.Reveal(), "|") {
		if len(key) < minKey {
			return nil, fmt.Errorf("a key has %d bytes, at least %d are needed", len(key), minKey)
		}
		keys = append(keys, []byte(key))
	}
	return keys, nil
}

func signature(key []byte, caller, callee, method string, sec int64) string {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{"v1", caller, callee, method} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part))) //nolint:gosec // names are short
		h.Write(n[:])
		h.Write([]byte(part))
	}
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(sec)) //nolint:gosec // a time after 1970
	h.Write(t[:])
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// signer signs the calls of one connection. A signature covers the method and the second, so it is
// computed once per second and method.
type signer struct {
	self, callee string
	now          func() time.Time
	current      atomic.Pointer[signingKey]
}

// signingKey is a key and the latest header made with it for each method.
type signingKey struct {
	key  []byte
	last sync.Map // full method → *signedHeader
}

type signedHeader struct {
	sec        int64
	authHeader string
}

func newSigner(self, callee string, key config.Secret) (*signer, error) {
	s := &signer{self: self, callee: callee, now: time.Now}
	return s, s.rekey(key)
}

func (s *signer) rekey(key config.Secret) error {
	keys, err := parsePairKeys(key)
	if err != nil {
		return fmt.Errorf("rpc: %s → %s: %w", s.self, s.callee, err)
	}
	s.current.Store(&signingKey{key: keys[0]})
	return nil
}

func (s *signer) authHeader(method string) string {
	k, sec := s.current.Load(), s.now().Unix()
	if v, ok := k.last.Load(method); ok {
		if l := v.(*signedHeader); l.sec == sec { //nolint:forcetypeassert // the map's only type
			return l.authHeader
		}
	}
	h := "v1 " + s.self + " " + strconv.FormatInt(sec, 10) + " " + signature(k.key, s.self, s.callee, method, sec)
	k.last.Store(method, &signedHeader{sec: sec, authHeader: h})
	return h
}

// verifier checks the signatures of calls to one callee.
type verifier struct {
	callee  string
	now     func() time.Time
	current atomic.Pointer[acceptedKeys]
}

// acceptedKeys has the keys of each caller and the header last verified for each method and caller.
type acceptedKeys struct {
	keys map[string][][]byte
	last sync.Map // full method and caller → *signedHeader
}

func newVerifier(callee string, accept map[string]config.Secret) (*verifier, error) {
	v := &verifier{callee: callee, now: time.Now}
	return v, v.rekey(accept)
}

// rekey replaces the keys of all callers at once, or fails and replaces none.
func (v *verifier) rekey(accept map[string]config.Secret) error {
	next := &acceptedKeys{keys: make(map[string][][]byte, len(accept))}
	for caller, set := range accept {
		keys, err := parsePairKeys(set)
		if err != nil {
			return fmt.Errorf("RPC_ACCEPT: of %q %w", caller, err)
		}
		next.keys[caller] = keys
	}
	v.current.Store(next)
	return nil
}

func (v *verifier) knowsCaller(caller string) bool {
	_, ok := v.current.Load().keys[caller]
	return ok
}

func (v *verifier) verifyCaller(ctx context.Context, method string) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	got := md.Get(authKey)
	if len(got) != 1 {
		return "", fmt.Errorf("%d signatures", len(got))
	}
	parts := strings.SplitN(got[0], " ", 4)
	if len(parts) != 4 || parts[0] != "v1" {
		return "", fmt.Errorf("a signature of an unknown form")
	}
	name := parts[1]
	accepted := v.current.Load()
	keys, ok := accepted.keys[name]
	if !ok {
		return "", fmt.Errorf("no key for caller %q", name)
	}
	sec, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return "", fmt.Errorf("a signature without a time")
	}
	if d := v.now().Sub(time.Unix(sec, 0)); d > maxSkew || d < -maxSkew {
		return "", fmt.Errorf("%q signed %v ago, allowed is %v: are the clocks right?", name, d.Round(time.Second), maxSkew)
	}
	id := method + " " + name
	if l, ok := accepted.last.Load(id); ok && equalStrings(l.(*signedHeader).authHeader, got[0]) { //nolint:forcetypeassert // the map's only type
		return name, nil
	}
	good := slices.ContainsFunc(keys, func(key []byte) bool { return equalStrings(parts[3], signature(key, name, v.callee, method, sec)) })
	if !good {
		return "", fmt.Errorf("a wrong signature from %q", name)
	}
	accepted.last.Store(id, &signedHeader{sec: sec, authHeader: got[0]})
	return name, nil
}

// claimedCaller returns the name in a call's signature, verified or not: "unknown" unless this server
// has a key for it, so that callers cannot make up values of a metric.
func (v *verifier) claimedCaller(ctx context.Context) string {
	if got := metadata.ValueFromIncomingContext(ctx, authKey); len(got) == 1 {
		if parts := strings.SplitN(got[0], " ", 3); len(parts) == 3 && v.knowsCaller(parts[1]) {
			return parts[1]
		}
	}
	return "unknown"
}

func equalStrings(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }
