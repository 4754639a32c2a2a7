package charts_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// kubectlStub answers like a cluster with two ConfigMaps, and records which are deleted. $USED are
// those in use; if it is not set, the stub cannot read the ReplicaSets.
const kubectlStub = `#!/bin/sh
case "$1 $2" in
"get replicaset") printf %s "${USED?}" ;;
"get configmap") printf 'configmap/urr-gateway-0000000001\nconfigmap/urr-gateway-0000000002\n' ;;
"delete configmap/"*) shift; echo "$@" >>"$DELETED" ;;
*) exit 2 ;;
esac
`

// The command in the README removes only unused ConfigMaps, and none if it cannot find out which
// are in use.
func TestUnusedConfigMapsAreRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	commands := regexp.MustCompile("(?s)```sh\n([^`]*kubectl get replicaset[^`]*)```").FindStringSubmatch(read(t, b.charts("README.md")))
	require.Len(t, commands, 2)
	for name, test := range map[string]struct{ env, deleted string }{
		"unused":             {"USED=urr-gateway-0000000002 urr-vwr-0000000003", "configmap/urr-gateway-0000000001\n"},
		"all are used":       {"USED=urr-gateway-0000000002 urr-gateway-0000000001", ""},
		"no ReplicaSets":     {"USED=", ""},
		"kubectl get failed": {"UNSET=", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectlStub), 0o755)) //nolint:gosec // a program
			deleted := filepath.Join(dir, "deleted")
			require.NoError(t, os.WriteFile(deleted, nil, 0o600))
			cmd := exec.CommandContext(t.Context(), "bash", "-c", commands[1])
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DELETED=" + deleted, test.env}
			out, err := cmd.CombinedOutput()
			if test.deleted != "" {
				require.NoError(t, err, string(out))
			}
			require.Equal(t, test.deleted, read(t, deleted), string(out))
		})
	}
}

// The selector in the README for the removal of a release's ConfigMaps selects all of this release,
// and none of other releases.
func TestConfigMapsOfAReleaseAreRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	command := regexp.MustCompile("`kubectl delete configmap -l ([^`]+)`").FindStringSubmatch(read(t, b.charts("README.md")))
	require.Len(t, command, 2)
	selected := selector{MatchLabels: map[string]string{}}
	for pair := range strings.SplitSeq(strings.ReplaceAll(command[1], "<release>", "urr"), ",") {
		name, value, found := strings.Cut(pair, "=")
		require.True(t, found, pair)
		selected.MatchLabels[name] = value
	}
	for release, want := range map[string]bool{"urr": true, "another": false} {
		count := 0
		out := b.run(t, nil, "helm", append([]string{"template", release, b.charts("urr")}, b.umbrellaArgs()...)...)
		for part := range bytes.SplitSeq(out, []byte("\n---\n")) {
			var object struct {
				Kind     string
				Metadata struct{ Labels map[string]string }
			}
			require.NoError(t, yaml.Unmarshal(part, &object))
			if object.Kind == "ConfigMap" {
				count++
				require.Equal(t, want, selected.selects(object.Metadata.Labels), "release %s: %v", release, object.Metadata.Labels)
			}
		}
		require.Equal(t, len(services())+1, count, "one of each service, and that of the gateway's room")
	}
}
