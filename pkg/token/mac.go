package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// MACSize is the length of a full MAC in bytes.
const MACSize = sha256.Size

// MACSet has an HMAC-SHA256 key for each key of the set from which it was derived, for one label.
// It is safe for concurrent use.
type MACSet struct {
	keyList[*sync.Pool] // pools of *keyedHash
}

// keyedHash is a reusable HMAC with its buffers. Its key is already processed, which saves half of
// the time of a short MAC. A poll, which computes two MACs, allocates no memory.
type keyedHash struct {
	hash.Hash

	in  []byte
	out [MACSize]byte
}

// Derive makes the keys for a label, by HKDF-SHA256 (RFC 5869). A MAC made under one label is
// invalid under any other.
func (k KeySet) Derive(label string) MACSet {
	set := MACSet{make(keyList[*sync.Pool], len(k.keyList))}
	for i, x := range k.keyList {
		derived, err := hkdf.Key(sha256.New, x.key, nil, label, sha256.Size)
		if err != nil { // fails only for lengths above 255 hashes
			panic("token: hkdf: " + err.Error())
		}
		pool := &sync.Pool{New: func() any { return &keyedHash{Hash: hmac.New(sha256.New, derived)} }}
		set.keyList[i] = listedKey[*sync.Pool]{kid: x.kid, key: pool}
	}
	return set
}

// Sum returns the MAC of the concatenated parts with the key kid; ok is false when the set has no
// such key. Nothing separates the parts, so a part of variable length must carry its length.
func (m MACSet) Sum(kid string, parts ...[]byte) (sum [MACSize]byte, ok bool) {
	pool, ok := m.findKey(kid)
	if !ok {
		return sum, false
	}
	h := pool.Get().(*keyedHash) //nolint:forcetypeassert // the pool's only type
	h.in = h.in[:0]
	for _, p := range parts {
		h.in = append(h.in, p...)
	}
	h.Reset()
	h.Write(h.in)
	h.Sum(h.out[:0])
	sum = h.out
	pool.Put(h)
	return sum, true
}

// Verify reports, in constant time, whether got is the MAC of the parts with the key kid. got may
// be shortened to its first 16 bytes or more.
func (m MACSet) Verify(kid string, got []byte, parts ...[]byte) bool {
	want, ok := m.Sum(kid, parts...)
	return ok && len(got) >= 16 && len(got) <= len(want) && hmac.Equal(want[:len(got)], got)
}
