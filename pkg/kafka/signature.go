package kafka

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/mod/sumdb/tlog"

	"urr.guru/pkg/config"
)

// A record proves by the header `signature` which service has written it. The records of one call of
// a Producer are leaves of a Merkle tree (RFC 6962), of which the service signs the root (Ed25519, RFC
// 8032): a signature for each record would take longer than to publish it. The header is
//
//	version (1 byte) | key id (8) | signature (64) | root (32) | index of the leaf, number of leaves (varints) | audit path (32 each)
//
// A leaf has the topic without the installation's prefix, ce_id, ce_type, key and value of a record,
// each after its length. So a dead letter keeps its signature, whatever topic it is in.
const (
	signatureVersion = 1
	signatureHead    = 1 + keyIDSize + ed25519.SignatureSize + tlog.HashSize
	// maxLeaves is the most records of a signature. The audit path of each then has up to 192 bytes.
	maxLeaves = 64
	// signedPrefix precedes the size and the root of a tree, so that the signature is of nothing else.
	signedPrefix = "urr.records.v1\n"
)

// The reasons to refuse a record.
var (
	errUnsigned     = errors.New("it is not signed")
	errTwoHeaders   = errors.New("it has a header twice")
	errUnknownKey   = errors.New("its signature is not by a key of the service that writes this topic")
	errBadSignature = errors.New("its signature does not fit")
)

// tree has the hashes of a Merkle tree: of its leaves, then of each two neighbours, up to the root. A
// last one without a neighbour is part of the next level as it is. tlog makes the same trees, in
// several times as long, since it reads each hash from a store.
type tree [][]tlog.Hash

func newTree(leaves []tlog.Hash) tree {
	t := tree{leaves}
	for level := leaves; len(level) > 1; {
		next := make([]tlog.Hash, 0, (len(level)+1)/2)
		for i := 0; i+1 < len(level); i += 2 {
			next = append(next, tlog.NodeHash(level[i], level[i+1]))
		}
		if len(level)%2 == 1 {
			next = append(next, level[len(level)-1])
		}
		t, level = append(t, next), next
	}
	return t
}

func (t tree) root() tlog.Hash { return t[len(t)-1][0] }

// appendPath appends the neighbours of leaf i and of the nodes above it, from which its root follows.
func (t tree) appendPath(to []byte, i int) []byte {
	for _, level := range t[:len(t)-1] {
		if neighbour := i ^ 1; neighbour < len(level) {
			to = append(to, level[neighbour][:]...)
		}
		i /= 2
	}
	return to
}

// leafRoom is enough for an id, a type and the lengths.
const leafRoom = 128

// leafOf returns what is signed of a record, in buf if there is room. topic has no prefix.
func leafOf(buf []byte, topic string, r *kgo.Record) []byte {
	leaf := slices.Grow(buf[:0], len(topic)+len(r.Key)+len(r.Value)+leafRoom)
	leaf = append(binary.AppendUvarint(leaf, uint64(len(topic))), topic...)
	for _, part := range [][]byte{headerOf(r, HeaderID), headerOf(r, HeaderType), r.Key, r.Value} {
		leaf = append(binary.AppendUvarint(leaf, uint64(len(part))), part...)
	}
	return leaf
}

// headerOf returns the first header of a name; nil without one.
func headerOf(r *kgo.Record, name string) []byte {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

func repeatsHeader(r *kgo.Record) bool {
	for i, h := range r.Headers {
		if slices.ContainsFunc(r.Headers[:i], func(earlier kgo.RecordHeader) bool { return earlier.Key == h.Key }) {
			return true
		}
	}
	return false
}

// signRecords adds the signature to records, of which topics has the names without prefix.
func signRecords(key ed25519.PrivateKey, topics []string, recs []*kgo.Record) {
	for at := 0; at < len(recs); at += maxLeaves {
		end := min(at+maxLeaves, len(recs))
		signTree(key, topics[at:end], recs[at:end])
	}
}

func signTree(key ed25519.PrivateKey, topics []string, recs []*kgo.Record) {
	leaves := make([]tlog.Hash, len(recs))
	var leaf []byte
	for i, r := range recs {
		leaf = leafOf(leaf, topics[i], r)
		leaves[i] = tlog.RecordHash(leaf)
	}
	t := newTree(leaves)
	root := t.root()
	head := append([]byte{signatureVersion}, keyIDOf(key.Public())...)
	head = append(append(head, ed25519.Sign(key, signedText(int64(len(recs)), root))...), root[:]...)
	for i, r := range recs {
		value := append(make([]byte, 0, len(head)+2*binary.MaxVarintLen16+len(t)*tlog.HashSize), head...)
		value = binary.AppendUvarint(binary.AppendUvarint(value, uint64(i)), uint64(len(recs))) //nolint:gosec // not negative
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderSignature, Value: t.appendPath(value, i)})
	}
}

func signedText(size int64, root tlog.Hash) []byte {
	text := binary.AppendUvarint([]byte(signedPrefix), uint64(size)) //nolint:gosec // not negative
	return append(text, root[:]...)
}

// recordSignature is the decoded header.
type recordSignature struct {
	key         keyID
	signature   []byte
	root        tlog.Hash
	index, size int64
	path        tlog.RecordProof
}

func parseSignature(header []byte) (s recordSignature, err error) {
	if len(header) < signatureHead || header[0] != signatureVersion {
		return s, errBadSignature
	}
	rest := header[1:]
	s.key, rest = keyID(rest[:keyIDSize]), rest[keyIDSize:]
	s.signature, rest = rest[:ed25519.SignatureSize], rest[ed25519.SignatureSize:]
	s.root, rest = tlog.Hash(rest[:tlog.HashSize]), rest[tlog.HashSize:]
	for _, n := range []*int64{&s.index, &s.size} {
		v, length := binary.Uvarint(rest)
		if length <= 0 || v > maxLeaves {
			return s, errBadSignature
		}
		*n, rest = int64(v), rest[length:]
	}
	if s.index >= s.size || len(rest)%tlog.HashSize != 0 || len(rest) > maxLeaves*tlog.HashSize {
		return s, errBadSignature
	}
	s.path = make(tlog.RecordProof, 0, len(rest)/tlog.HashSize)
	for ; len(rest) > 0; rest = rest[tlog.HashSize:] {
		s.path = append(s.path, tlog.Hash(rest[:tlog.HashSize]))
	}
	return s, nil
}

// verifier checks the signatures of consumed records. It remembers the roots whose signature was
// right, since many records have the same.
type verifier struct {
	writer func(topic string) string // the service that writes a topic, "" for an unknown one
	keys   *publicKeys

	mu         sync.Mutex
	known, old map[signedRoot]bool
}

// signedRoot is a root of a tree of some size, with the signature of a key.
type signedRoot struct {
	key       [ed25519.PublicKeySize]byte
	signature [ed25519.SignatureSize]byte
	root      tlog.Hash
	size      int64
}

// maxRoots is the most roots in each of the two maps of a verifier.
const maxRoots = 4096

// newVerifier fails unless the keys of the services that write these topics are known.
func newVerifier(cfg Config, topics ...string) (*verifier, error) {
	keys, err := newPublicKeys(cfg)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		if writer := cfg.writerOf(topic); len(keys.get()[writer]) == 0 {
			return nil, config.Missing("EVENT_PUBLIC_KEYS", fmt.Sprintf("must have the keys of the service %q, which writes %s", writer, topic))
		}
	}
	return &verifier{writer: cfg.writerOf, keys: keys, known: map[signedRoot]bool{}}, nil
}

// verify fails unless the record was signed by the service that writes the topic (without prefix).
func (v *verifier) verify(topic string, r *kgo.Record) error {
	header := headerOf(r, HeaderSignature)
	switch {
	case header == nil:
		return errUnsigned
	case repeatsHeader(r): // of which a handler could read the one that is not signed
		return errTwoHeaders
	}
	s, err := parseSignature(header)
	if err != nil {
		return err
	}
	key := v.keys.find(v.writer(topic), s.key)
	if key == nil {
		return errUnknownKey
	}
	if tlog.CheckRecord(s.path, s.size, s.root, s.index, tlog.RecordHash(leafOf(nil, topic, r))) != nil || !v.signed(key, s) {
		return errBadSignature
	}
	return nil
}

// signed reports whether the key has signed the root.
func (v *verifier) signed(key ed25519.PublicKey, s recordSignature) bool {
	root := signedRoot{[ed25519.PublicKeySize]byte(key), [ed25519.SignatureSize]byte(s.signature), s.root, s.size}
	v.mu.Lock()
	known := v.known[root] || v.old[root]
	v.mu.Unlock()
	if known || !ed25519.Verify(key, signedText(s.size, s.root), s.signature) {
		return known
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxRoots {
		v.known, v.old = map[signedRoot]bool{}, v.known
	}
	v.known[root] = true
	return true
}

// Signer signs the records of a service. It is safe for concurrent use.
type Signer struct {
	key      *reread[ed25519.PrivateKey]
	verifier *verifier
}

// NewSigner makes a Signer with the keys of cfg. It fails without a signing key.
func NewSigner(cfg Config) (*Signer, error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, err
	}
	key, err := newSigningKey(cfg, v.keys)
	return &Signer{key, v}, err
}

// Sign returns a record with its signature, for one that waits elsewhere before it is published.
func (s *Signer) Sign(r Record) Record {
	out := r.toKgo()
	signRecords(s.key.get(), []string{r.Topic}, []*kgo.Record{out})
	r.Headers = maps.Clone(r.Headers)
	r.Headers[HeaderSignature] = string(headerOf(out, HeaderSignature))
	return r
}

// Verify fails unless the service that writes the record's topic has signed the record.
func (s *Signer) Verify(r Record) error { return s.verifier.verify(r.Topic, r.toKgo()) }
