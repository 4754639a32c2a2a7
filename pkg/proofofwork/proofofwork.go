// Package proofofwork makes and checks puzzles like Hashcash: find a nonce with which the SHA-256
// of "<challenge>.<nonce>" begins with a given number of zero bits. Each bit doubles the expected
// number of hashes, 2^bits; to check a nonce takes one. The challenge must be unpredictable, or it
// could be solved in advance.
package proofofwork

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// MaxBits is the difficulty of the hardest puzzle: 17 million hashes on average, some minutes on a
// phone. A harder one would only keep people out.
const MaxBits = 24

// maxNonce is the longest nonce, in characters.
const maxNonce = 32

// separator stands between the challenge and the nonce; neither contains it.
const separator = "."

// Split divides a proof into challenge and nonce; ok is false when it is malformed.
func Split(proof string) (challenge, nonce string, ok bool) {
	challenge, nonce, ok = strings.Cut(proof, separator)
	if !ok || challenge == "" || nonce == "" || len(nonce) > maxNonce {
		return "", "", false
	}
	return challenge, nonce, strings.Trim(nonce, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// Bits returns how many zero bits the SHA-256 of a proof begins with.
func Bits(proof string) int {
	sum := sha256.Sum256([]byte(proof))
	return leadingZeros(&sum)
}

func leadingZeros(sum *[sha256.Size]byte) int {
	n := 0
	for i := 0; i < len(sum); i += 8 {
		zeros := bits.LeadingZeros64(binary.BigEndian.Uint64(sum[i:]))
		n += zeros
		if zeros < 64 {
			break
		}
	}
	return n
}

// cancelEvery is the number of hashes between two checks whether the context has ended.
const cancelEvery = 1 << 14

// Solve finds a proof for a challenge. It fails when ctx ends.
func Solve(ctx context.Context, challenge string, difficulty int) (string, error) {
	// The hash of the challenge is computed once, and each nonce continues it, which takes one block.
	h := sha256.New()
	h.Write([]byte(challenge + separator))
	prefix, err := h.(encoding.BinaryMarshaler).MarshalBinary() //nolint:forcetypeassert // as documented
	if err != nil {
		return "", fmt.Errorf("state of the hash: %w", err)
	}
	restore := h.(encoding.BinaryUnmarshaler) //nolint:forcetypeassert // as documented
	var (
		nonce [maxNonce]byte
		sum   [sha256.Size]byte
	)
	for n := uint64(0); ; n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err := restore.UnmarshalBinary(prefix); err != nil {
			return "", fmt.Errorf("state of the hash: %w", err)
		}
		text := strconv.AppendUint(nonce[:0], n, 36)
		h.Write(text)
		h.Sum(sum[:0])
		if leadingZeros(&sum) >= difficulty {
			return challenge + separator + string(text), nil
		}
	}
}
