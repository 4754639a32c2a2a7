package releases_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/releases"
)

func TestNewest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tags   []string
		newest releases.Tag
	}{
		"nothing is released":       {nil, ""},
		"other tags":                {[]string{"v1", "version-2.0.0", "0.9.0", "v0.1", "v0.1.0.1", "vendor"}, ""},
		"one":                       {[]string{"v0.1.0"}, "v0.1.0"},
		"by number, not by letter":  {[]string{"v0.10.0", "v0.9.1", "v0.2.0"}, "v0.10.0"},
		"patches":                   {[]string{"v0.1.9", "v0.1.10"}, "v0.1.10"},
		"majors":                    {[]string{"v0.99.99", "v1.0.0"}, "v1.0.0"},
		"a candidate is no release": {[]string{"v0.1.0", "v0.2.0-rc1"}, "v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.newest, releases.Newest(c.tags))
		})
	}
}

func TestReaches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tag     releases.Tag
		version string
		reaches bool
	}{
		{"", "0.1.0", false},
		{"v0.2.0", "0.3.0", false},
		{"v0.3.0", "0.3.0", true},
		{"v0.10.0", "0.9.0", true},
	} {
		reaches, err := c.tag.Reaches(c.version)
		require.NoError(t, err)
		require.Equal(t, c.reaches, reaches, "%q %s", c.tag, c.version)
	}
	_, err := releases.Tag("v0.1.0").Reaches("soon")
	require.ErrorContains(t, err, `"soon" is not a version`)
}

func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	_, err := releases.Of(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "list the tags", "outside of a clone")
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=first")
	tag, err := releases.Of(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, tag)
	git("tag", "v0.9.0")
	git("tag", "v0.10.0")
	git("tag", "other")
	tag, err = releases.Of(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, releases.Tag("v0.10.0"), tag)
}
