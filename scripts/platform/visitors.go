package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"urr.guru/pkg/proofofwork"
)

// Names in the gateway's API for the proof of work that a position in a waiting room may need.
const (
	// ProofRequired is the error code with which a request without a proof is refused.
	ProofRequired = "PROOF_REQUIRED"
	// AskLater is the error code with which a request for a position before the visitor's turn is refused.
	AskLater = "ASK_LATER"
	// ProofHeader is the HTTP header with the proof.
	ProofHeader = "x-vwr-proof"
)

// ChallengePath returns the path at which a visitor gets a challenge for a proof of work.
func ChallengePath(eventID string) string { return "/vwr-api/vwr/challenge/" + eventID }

// Prove does the proof of work for a challenge; body is the gateway's response from ChallengePath.
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

// VisitorAddress returns the IP address that the n-th simulated visitor sends in X-Forwarded-For.
// Gateways of development runs and tests trust this header from this machine.
func VisitorAddress(n uint32) string {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}
