package token

import (
	"fmt"
	"strings"

	"urr.guru/pkg/config"
)

// maxKID is the largest length of a key id, so that it fits in one length byte of a compact ticket.
const maxKID = 32

// keyList is a set of keys of any type, each with an id. The first key signs, all verify. The zero
// value has no keys.
type keyList[K any] []listedKey[K]

type listedKey[K any] struct {
	kid string
	key K
}

// parseKeys reads `kid:value[,kid:value…]`; a value without a colon is one key with the kid 1. A
// kid is 1-32 of [A-Za-z0-9_-] and occurs once. noun is the word for a value in errors. read makes
// a key from a value. No error may contain a value, so read must not return one that does.
func parseKeys[K any](s config.Secret, noun string, read func(value string) (K, error)) (keyList[K], error) {
	raw := strings.TrimSpace(s.Reveal())
	if raw == "" {
		return nil, fmt.Errorf("no key: must be kid:%s[,kid:%[1]s…]", noun)
	}
	if !strings.Contains(raw, ":") {
		raw = "1:" + raw
	}
	var list keyList[K]
	for i, entry := range strings.Split(raw, ",") {
		kid, value, ok := strings.Cut(strings.TrimSpace(entry), ":")
		if !ok || !validKID(kid) {
			return nil, fmt.Errorf("key %d: must be kid:%s, the kid 1–%d of [A-Za-z0-9_-]", i+1, noun, maxKID)
		}
		if _, twice := list.findKey(kid); twice {
			return nil, fmt.Errorf("key %s is there twice", kid)
		}
		key, err := read(value)
		if err != nil {
			return nil, fmt.Errorf("key %s: the %s %w", kid, noun, err)
		}
		list = append(list, listedKey[K]{kid: kid, key: key})
	}
	return list, nil
}

func validKID(s string) bool {
	if len(s) < 1 || len(s) > maxKID {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// Current returns the id of the key that signs; "" for a set without keys.
func (l keyList[K]) Current() string {
	if len(l) == 0 {
		return ""
	}
	return l[0].kid
}

func (l keyList[K]) Kids() []string {
	kids := make([]string, len(l))
	for i, k := range l {
		kids[i] = k.kid
	}
	return kids
}

func (l keyList[K]) findKey(kid string) (key K, ok bool) {
	for _, k := range l {
		if k.kid == kid {
			return k.key, true
		}
	}
	return key, false
}

// String lists the ids of the keys only, so that no key gets into a log.
func (l keyList[K]) String() string   { return "keys(" + strings.Join(l.Kids(), ",") + ")" }
func (l keyList[K]) GoString() string { return l.String() }
