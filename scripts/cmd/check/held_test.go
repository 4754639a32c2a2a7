package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeldOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	second := &heldOutput{out: &out}
	fmt.Fprint(second, "b1 ")
	fmt.Fprint(second, "b2 ")
	fmt.Fprint(&out, "a ")
	require.NoError(t, second.release())
	fmt.Fprint(second, "b3")
	require.Equal(t, "a b1 b2 b3", out.String())
}
