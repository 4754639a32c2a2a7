package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"urr.guru/pkg/proofofwork"
)

// Parts of the gateway's API for the proof of work that a position in a waiting room may cost.
const (
	// ProofRequired is the code of the refusal of a request without a proof.
	ProofRequired = "PROOF_REQUIRED"
	// ProofHeader carries the proof.
	ProofHeader = "x-vwr-proof"
)

// ChallengePath returns the path at which a visitor gets the challenge of a proof of work.
func ChallengePath(eventID string) string { return "/vwr-api/vwr/challenge/" + eventID }

// Prove does the proof of work for a challenge; body is a response of ChallengePath.
func Prove(ctx context.Context, body []byte) (proof string, err error) {
	var c struct {
		Challenge  string `json:"challenge"`
		Difficulty int    `json:"difficulty"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return "", fmt.Errorf("challenge %q: %w", body, err)
	}
	return proofofwork.Solve(ctx, c.Challenge, c.Difficulty)
}

// VisitorAddress returns the IP address of the n-th simulated visitor, for the header
// X-Forwarded-For. Gateways of development runs and tests trust this header from this machine.
func VisitorAddress(n uint32) string {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}
