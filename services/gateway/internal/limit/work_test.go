package limit_test

import (
	crand "crypto/rand"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/gateway/internal/limit"
)

// owedBy counts a new visitor of an address and returns the bits of proof of work that are asked.
func owedBy(t *testing.T, l *limit.Limiter, address string) int {
	t.Helper()
	bits, err := l.CountNewVisitor(t.Context(), netip.MustParseAddr(address))
	require.NoError(t, err)
	return bits
}

// New visitors of an address beyond the rule owe a proof of work. It grows with their number up to
// a maximum, and that number is forgotten within minutes.
func TestExcessOfNewVisitorsCostsWork(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := limit.New(limit.Config{Work: limit.WorkRule{Free: limit.RateRule{Rate: 0.5, Burst: 300}, MinBits: 16, MaxBits: 18, HalfLife: time.Minute}, Keys: 1000}, nil, c.Now)
	owed := func() int { return owedBy(t, l, "192.0.2.1") }
	for i := range 300 {
		require.Zero(t, owed(), "visitor %d", i)
	}
	for excess := 1; excess <= 1500; excess++ {
		want := 16
		switch {
		case excess >= 1200:
			want = 18
		case excess >= 600:
			want = 17
		}
		require.Equal(t, want, owed(), "excess %d", excess)
	}
	require.Zero(t, owedBy(t, l, "192.0.2.2"), "another address")
	// An excess of at most 1,200 is remembered, and half of it is forgotten each minute.
	c.Advance(4 * time.Second)
	require.Equal(t, 17, owed())
	c.Advance(56 * time.Second)
	require.Equal(t, 16, owed(), "an excess of 580")
	c.Advance(5 * time.Minute)
	require.Zero(t, owed(), "within the allowance")
	c.Advance(time.Hour)
	for range 300 {
		require.Zero(t, owed())
	}
	require.Equal(t, 16, owed())
}

// An IPv6 /56 may have four times as many free visitors as a /64, and a /48 sixteen times as many.
func TestWorkOfWiderNetworks(t *testing.T) {
	t.Parallel()
	l := limit.New(limit.Config{Work: limit.WorkRule{Free: limit.RateRule{Rate: 0.5, Burst: 2}, MinBits: 16, MaxBits: 20, HalfLife: time.Minute}, Keys: 100_000}, nil, newClock().Now)
	free := func(address func(i int) string) int {
		for i := range 256 {
			if owedBy(t, l, address(i)) != 0 {
				return i
			}
		}
		return 256
	}
	require.Equal(t, 2, free(func(i int) string { return fmt.Sprintf("2001:db8:1:1::%x", i) }), "one /64")
	require.Equal(t, 8, free(func(i int) string { return fmt.Sprintf("2001:db8:2:%x::1", i) }), "many /64 of one /56")
	require.Equal(t, 32, free(func(i int) string { return fmt.Sprintf("2001:db8:3:%02x00::1", i) }), "many /56 of one /48")
}

// All gateways count the excess together. While Redis is unavailable each counts alone.
func TestExcessInRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t)
	cfg := limit.Config{
		// Refilled once in ten minutes, which is longer than the test.
		Work: limit.WorkRule{Free: limit.RateRule{Rate: 1.0 / 600, Burst: 4}, MinBits: 16, MaxBits: 18, HalfLife: 24 * time.Hour},
		Keys: 1000, Timeout: time.Hour, Pause: time.Second,
	}
	gateways := []*limit.Limiter{limit.New(cfg, rdb, newClock().Now), limit.New(cfg, rdb, newClock().Now)}
	var random [16]byte
	_, err := crand.Read(random[:])
	require.NoError(t, err)
	random[0] = 0xfd // a private network that other runs do not use
	address := netip.AddrFrom16(random).String()
	owed := make([]int, 40)
	for i := range owed {
		owed[i] = owedBy(t, gateways[i%2], address)
	}
	// Four visitors owe nothing. At the others, the excess is well between two steps of the work.
	require.Equal(t, []int{0, 0, 0, 0}, owed[:4])
	require.Equal(t, []int{16, 17, 18, 18}, []int{owed[4+2], owed[4+10], owed[4+20], owed[39]})
	require.NoError(t, rdb.Close())
	require.Zero(t, owedBy(t, gateways[0], address), "the process counts alone")
}
