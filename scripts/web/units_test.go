package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// TestUnits runs the unit tests of the pages, services/gateway/web/test, in Node.
func TestUnits(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	web := filepath.Join(layout.Root, "services/gateway/web")
	tests, err := filepath.Glob(filepath.Join(web, "test/*.test.ts"))
	require.NoError(t, err)
	require.NotEmpty(t, tests)
	for _, source := range tests {
		t.Run(filepath.Base(source), func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "test.mjs")
			require.NoError(t, problems(api.Build(api.BuildOptions{
				AbsWorkingDir: web, EntryPoints: []string{source}, Outfile: program, Write: true,
				Bundle: true, Format: api.FormatESModule, Platform: api.PlatformNode, Target: api.ES2022,
			})))
			node := exec.CommandContext(t.Context(), "node", "--test", program)
			node.Env = append(os.Environ(), "TZ=Europe/Berlin")
			out, err := node.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
