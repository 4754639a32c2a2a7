package leaktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/leaktest"
)

// These tests do not run in parallel, since goroutines of other tests count.

func TestGoroutineThatEndsLate(t *testing.T) {
	go time.Sleep(2 * time.Second) // longer than goleak waits
	require.NoError(t, leaktest.Find(time.Hour))
}

func TestGoroutineThatDoesNotEnd(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	require.ErrorContains(t, leaktest.Find(0), "TestGoroutineThatDoesNotEnd")
}
