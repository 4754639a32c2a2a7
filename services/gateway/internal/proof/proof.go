// Package proof asks visitors for a proof of work before they get a position in a waiting room. The
// challenge is signed. So any gateway can check the proof, and none has to store challenges.
package proof

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/proofofwork"
	"urr.guru/services/gateway/internal/identity"
)

const (
	// Life is how long a challenge is valid. A visitor who must begin again with another one loses
	// nothing: no nonce is more likely to be right after others were tried.
	Life = 5 * time.Minute
	// grace is how long after its issue a challenge with too few bits is accepted, so that an honest
	// page does not lose its work when an operator raises the difficulty.
	grace = time.Minute
)

// Proofs issues challenges and checks proofs. It is safe for concurrent use.
type Proofs struct {
	tokens *identity.Verifier
	paid   *paidProofs
	test   HumanTest
	now    func() time.Time
}

// Timeout is the time-out of a call to Redis.
const Timeout = 100 * time.Millisecond

// New makes Proofs. It remembers used proofs in Redis, whose calls take at most timeout, or without
// a client (nil) in the process.
func New(tokens *identity.Verifier, test HumanTest, rdb redis.UniversalClient, timeout time.Duration, now func() time.Time) (*Proofs, error) {
	p, err := newPaid(rdb, timeout, now)
	if err != nil {
		return nil, err
	}
	return &Proofs{tokens: tokens, paid: p, test: test, now: now}, nil
}

// WorkDebt is the proof of work that a visitor owes for a position in a round of an event's waiting
// room.
type WorkDebt struct {
	Event   string
	Round   int64
	Visitor string
	Bits    int // 0: nothing
}

// Challenge issues a challenge with as many bits as the visitor owes. It returns it and its end.
func (p *Proofs) Challenge(d WorkDebt) (string, time.Time) {
	c := claims.Challenge{Round: d.Round, Bits: uint8(min(d.Bits, proofofwork.MaxBits)), Expires: p.now().Add(Life)} //nolint:gosec // at most MaxBits
	countChallenge(int(c.Bits))
	return p.tokens.SealChallenge(c, d.Event, d.Visitor), c.Expires
}

// Check fails with errs.ErrProofRequired unless the visitor owes nothing, sends a valid proof, or
// has sent one that has not expired. A proof can be used once. Repeated requests, with or without
// it, need no other proof.
func (p *Proofs) Check(ctx context.Context, d WorkDebt, proof string) error {
	if d.Bits <= 0 {
		return nil
	}
	c, cause := p.verifyProof(d, proof)
	switch {
	case cause == "" && p.paid.add(ctx, d.key(), c.Expires):
		countResult(resultSolved)
		return nil
	case cause == "" || p.paid.has(ctx, d.key()):
		countResult(resultRepeated)
		return nil
	}
	countResult(cause)
	return errs.ErrProofRequired.With("challengeUrl", "/vwr-api/vwr/challenge/"+d.Event)
}

// verifyProof returns the challenge of a valid proof, else the cause of its refusal.
func (p *Proofs) verifyProof(d WorkDebt, proof string) (c claims.Challenge, cause string) {
	if proof == "" {
		return c, resultMissing
	}
	sealed, _, ok := proofofwork.Split(proof)
	if !ok {
		return c, resultInvalid
	}
	if c, ok = p.tokens.OpenChallenge(d.Event, d.Visitor, sealed); !ok {
		return c, resultInvalid
	}
	now := p.now()
	switch {
	case c.Round != d.Round:
		return c, resultRound
	case !now.Before(c.Expires):
		return c, resultExpired
	case proofofwork.Bits(proof) < int(c.Bits):
		return c, resultEasy
	case int(c.Bits) < d.Bits && now.Sub(c.Expires.Add(-Life)) > grace:
		return c, resultEasy
	}
	return c, ""
}
