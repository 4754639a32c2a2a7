package proof_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/proofofwork"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/proof"
)

const (
	secret  = "a-secret-of-at-least-thirty-two-bytes"
	foreign = "another-secret-of-thirty-two-bytes!!"
)

// noRevocations is an empty list of revocations.
type noRevocations struct{}

func (noRevocations) HasBeenRead() bool              { return true }
func (noRevocations) IsRevoked(*claims.Session) bool { return false }

// gateway returns the proofs of one gateway. Several can share a Redis, which may be slow.
func gateway(t *testing.T, secret string, rdb redis.UniversalClient, c *testkit.Clock) *proof.Proofs {
	t.Helper()
	k := tokentest.KeySet(t, secret)
	tokens, err := identity.New(identity.Keys{Session: k, Visitor: k, Tier1: k, Ticket: k, Entry: k}, 10, noRevocations{}, c.Now)
	require.NoError(t, err)
	p, err := proof.New(tokens, proof.HumanTest{}, rdb, time.Hour, c.Now)
	require.NoError(t, err)
	return p
}

func newClock() *testkit.Clock { return testkit.NewClock(time.Unix(1_800_000_000, 0)) }

// debt returns the proof of work that a new visitor owes.
func debt(bits int) proof.WorkDebt {
	return proof.WorkDebt{Event: "demo", Round: 1_700_000_000_000_000, Visitor: uuid.NewString(), Bits: bits}
}

func solve(t *testing.T, p *proof.Proofs, d proof.WorkDebt) string {
	t.Helper()
	challenge, _ := p.Challenge(d)
	solved, err := proofofwork.Solve(t.Context(), challenge, d.Bits)
	require.NoError(t, err)
	return solved
}

func requireRefused(t *testing.T, err error, what string) {
	t.Helper()
	require.ErrorIs(t, err, errs.ErrProofRequired, what)
	require.Equal(t, "/vwr-api/vwr/challenge/demo", errs.From(err).Metadata["challengeUrl"], what)
}

func TestProofOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := gateway(t, secret, nil, c)
	d := debt(8)
	otherVisitor, otherEvent, otherRound, free := debt(8), d, d, d
	otherEvent.Event = "other"
	otherRound.Round--
	free.Bits = 0
	good := solve(t, p, d)
	challenge, nonce, ok := proofofwork.Split(good)
	require.True(t, ok)
	cases := map[string]string{
		"none":                "",
		"no proof":            "x",
		"a challenge alone":   challenge + ".",
		"a long nonce":        challenge + "." + strings.Repeat("0", 33),
		"an odd nonce":        challenge + ".a b",
		"another key's":       solve(t, gateway(t, foreign, nil, c), d),
		"another visitor's":   solve(t, p, otherVisitor),
		"another event's":     solve(t, p, otherEvent),
		"another round's":     solve(t, p, otherRound),
		"a changed challenge": "B" + good[1:],
		"too easy a nonce":    easy(challenge, d.Bits),
		"a cut challenge":     challenge[1:] + "." + nonce,
	}
	for name, sent := range cases {
		requireRefused(t, p.Check(t.Context(), d, sent), name)
	}
	require.NoError(t, p.Check(t.Context(), free, ""), "who owes nothing")
	require.NoError(t, p.Check(t.Context(), d, good))
	requireRefused(t, p.Check(t.Context(), otherVisitor, good), "shown by another visitor")
	requireRefused(t, p.Check(t.Context(), otherRound, good), "shown in another round")
}

// easy returns a proof with fewer zero bits than required.
func easy(challenge string, bits int) string {
	for nonce := "0"; ; nonce += "0" {
		if p := challenge + "." + nonce; proofofwork.Bits(p) < bits {
			return p
		}
	}
}

func TestProofExpires(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := gateway(t, secret, nil, c)
	d, late := debt(6), debt(6)
	_, end := p.Challenge(d)
	require.Equal(t, c.Now().Add(proof.Life), end)
	first, second := solve(t, p, d), solve(t, p, late)
	c.Advance(proof.Life - time.Millisecond)
	require.NoError(t, p.Check(t.Context(), d, first))
	c.Advance(time.Millisecond)
	requireRefused(t, p.Check(t.Context(), late, second), "at its end")
	requireRefused(t, p.Check(t.Context(), d, first), "nor is it remembered any longer")
}

// After an operator has raised the difficulty, an easier challenge is still accepted for a minute,
// so that work in progress is not lost.
func TestMoreIsOwed(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := gateway(t, secret, nil, c)
	quick, slow := debt(4), debt(4)
	first, second := solve(t, p, quick), solve(t, p, slow)
	quick.Bits, slow.Bits = 12, 12
	c.Advance(time.Minute)
	require.NoError(t, p.Check(t.Context(), quick, first))
	c.Advance(time.Millisecond)
	requireRefused(t, p.Check(t.Context(), slow, second), "more than a minute after its issue")
	require.NoError(t, p.Check(t.Context(), slow, solve(t, p, slow)))
}

// A proof can be used once, however many gateways get it at the same time. A visitor who repeats
// the request need not do the work again.
func TestProofCountsOnce(t *testing.T) {
	t.Parallel()
	rdb, c := redistest.Open(t), newClock()
	gateways := []*proof.Proofs{gateway(t, secret, rdb, c), gateway(t, secret, rdb, c), gateway(t, secret, rdb, c)}
	d := debt(4)
	sent := solve(t, gateways[0], d)
	var wg sync.WaitGroup
	var failed [20]error
	for i := range failed {
		wg.Go(func() { failed[i] = gateways[i%2].Check(t.Context(), d, sent) })
	}
	wg.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
	require.NoError(t, gateways[2].Check(t.Context(), d, ""), "a repeated request, at a gateway that has not seen the proof")
	other := d
	other.Event = "other"
	require.ErrorIs(t, gateways[2].Check(t.Context(), other, sent), errs.ErrProofRequired, "for a position in another room")
}

// Without Redis each gateway remembers paid proofs alone.
func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	rdb, c := redistest.Open(t), newClock()
	p := gateway(t, secret, rdb, c)
	require.NoError(t, rdb.Close())
	d := debt(4)
	requireRefused(t, p.Check(t.Context(), d, ""), "without a proof")
	require.NoError(t, p.Check(t.Context(), d, solve(t, p, d)))
	require.NoError(t, p.Check(t.Context(), d, ""), "a repeated request")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Check(ctx, d, ""))
}
