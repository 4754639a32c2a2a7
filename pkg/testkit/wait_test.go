package testkit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

func TestWaitsUntilItComes(t *testing.T) {
	t.Parallel()
	n := 0
	testkit.UntilNoError(t, func() error {
		if n++; n < 5 {
			return errors.New("not yet")
		}
		return nil
	})
	require.Equal(t, 5, n)
	testkit.Until(t, func() bool { n--; return n == 0 })
	c := make(chan int)
	go func() { c <- 7 }()
	require.Equal(t, 7, testkit.Receive(t, c))
}

// nearEnd is a test whose run is about to be killed; it records its failure.
type nearEnd struct {
	testing.TB
	failure string
}

func (*nearEnd) Deadline() (time.Time, bool) { return time.Now().Add(time.Second), true }

func (n *nearEnd) Fatalf(format string, _ ...any) {
	n.failure = format
	panic("failed")
}

func TestGivesUpBeforeTheRunIsKilled(t *testing.T) {
	t.Parallel()
	n := &nearEnd{TB: t}
	require.Panics(t, func() { testkit.Until(n, func() bool { return false }) })
	require.NotEmpty(t, n.failure)
	require.Panics(t, func() { testkit.Receive(n, make(chan int)) })
}
