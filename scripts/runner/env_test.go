package runner

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// A shell that runs the printed lines has the environment of the service, whatever the values are.
func TestEnvPrintsTheServiceEnvironment(t *testing.T) {
	r := setup(t)
	t.Setenv("QUEUE_NOTE", `two words, "quotes", it's $HOME and \n`)
	t.Setenv("LOG_LEVEL", "debug")
	t.Setenv("PPROF", "true")
	t.Setenv("UNRELATED", "x")
	s, err := platform.Lookup(platform.Queue)
	require.NoError(t, err)
	var printed bytes.Buffer
	require.NoError(t, r.Env(&printed, platform.Queue))

	shell := exec.CommandContext(t.Context(), "sh", "-euc", `eval "$1"; exec env -0`, "sh", printed.String())
	shell.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := shell.Output()
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(values(r.env(s)), values(strings.Split(strings.Trim(string(out), "\x00"), "\x00"))))
	require.Contains(t, printed.String(), "export QUEUE_ENTRY_TOKEN_SECRET='"+r.secrets.EntryToken+"'\n")
	require.Contains(t, printed.String(), "export PPROF='true'\n")
	require.NotContains(t, printed.String(), "UNRELATED")

	require.ErrorContains(t, r.Env(&printed, "qeue"), "make env S=queue")
}

// values returns the variables of an environment, except those that every shell sets.
func values(env []string) map[string]string {
	all := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		all[name] = value
	}
	for _, name := range []string{"PATH", "HOME", "PWD", "OLDPWD", "_", "SHLVL"} {
		delete(all, name)
	}
	return all
}
