package testkit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// These tests do not run in parallel, since goroutines of other tests count.

func TestGoroutineThatEndsLate(t *testing.T) {
	go time.Sleep(2 * time.Second) // longer than goleak waits
	require.NoError(t, testkit.FindLeaks(time.Hour))
}

func TestGoroutineThatDoesNotEnd(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	require.ErrorContains(t, testkit.FindLeaks(0), "TestGoroutineThatDoesNotEnd")
}
