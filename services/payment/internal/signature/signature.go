// Package signature verifies webhooks that are signed in the way that Stripe signs them.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tolerance is the largest difference between a webhook's time and the current time, so that a
// recorded webhook cannot be replayed later.
const tolerance = 5 * time.Minute

// Genuine reports whether signature, t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">[,v1=…], was
// made with one of the secrets, within tolerance of now.
func Genuine(signature string, body []byte, secrets []string, now time.Time) bool {
	stamp, sums := parse(signature)
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	return slices.ContainsFunc(secrets, func(secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		return slices.ContainsFunc(sums, func(sum []byte) bool { return hmac.Equal(sum, want) })
	})
}

// parse splits a signature into its time and its sums: one for each secret, while a secret is being
// replaced.
func parse(signature string) (stamp string, sums [][]byte) {
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil {
				sums = append(sums, sum)
			}
		}
	}
	return stamp, sums
}
