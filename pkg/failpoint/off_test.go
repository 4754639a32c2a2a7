//go:build !failpoint

package failpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/failpoint"
)

func TestNothingHappensWithoutTheTag(t *testing.T) {
	t.Setenv("URR_FAILPOINTS", "p=exit")
	failpoint.Hit("p")
	require.NoError(t, failpoint.Err("p"))
}
