package claims

import (
	"strings"

	"urr.guru/pkg/token"
)

// sessionTagSize is the size of a tag's MAC, in bytes: the least that token.MACSet verifies.
const sessionTagSize = 16

// TagSession appends a tag to a signed session: a dot, the kid, a dot, and in base64url the first
// 16 bytes of the MAC of the session's text. Gateways of waiting rooms check sessions by the tag,
// whose key makes no session that the shop accepts. It returns signed when keys has no key.
func TagSession(keys token.MACSet, signed string) string {
	sum, ok := keys.Sum(keys.Current(), []byte(signed))
	if !ok {
		return signed
	}
	return signed + "." + keys.Current() + "." + encoding.EncodeToString(sum[:sessionTagSize])
}

// UntagSession returns the signed session in tok, and whether it has a tag. A session may lack one:
// then its signature must be checked. A tag that does not verify is ErrForged.
func UntagSession(keys token.MACSet, tok string) (signed string, tagged bool, err error) {
	parts := strings.SplitN(tok, ".", 6)
	if len(parts) != 5 {
		return tok, false, nil
	}
	kid, encoded := parts[3], parts[4]
	signed = tok[:len(tok)-len(kid)-len(encoded)-2]
	mac, err := encoding.DecodeString(encoded)
	if err != nil || len(encoded) != encoding.EncodedLen(sessionTagSize) || !keys.Verify(kid, mac, []byte(signed)) {
		return "", false, ErrForged
	}
	return signed, true, nil
}
