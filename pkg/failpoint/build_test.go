package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// A program built without the tag contains neither the code nor the variable's name, so that its
// environment cannot kill it. The test does not depend on its own build tags.
func TestOnlyATaggedBuildHasFailpoints(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "tests that build programs")
	for name, tc := range map[string]struct {
		tags  string
		armed bool
	}{"production": {"", false}, "tagged": {"failpoint", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "victim")
			build := exec.CommandContext(t.Context(), "go", "build", "-tags="+tc.tags, "-o", program, "./testdata/victim")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			content, err := os.ReadFile(program)
			require.NoError(t, err)
			require.Equal(t, tc.armed, bytes.Contains(content, []byte("URR_FAILPOINTS")))
			for _, points := range []string{"victim.hit=exit", "victim.err=error"} {
				cmd := exec.CommandContext(t.Context(), program)
				cmd.Env = append(os.Environ(), "URR_FAILPOINTS="+points)
				require.Equal(t, tc.armed, cmd.Run() != nil, points)
			}
		})
	}
}
