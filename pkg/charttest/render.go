// Package charttest renders the Helm charts and gives the environment that a service's container would have, so that a service's tests
// can load it: charts and code cannot drift apart.
package charttest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// object is what the tests read of a Kubernetes object.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Template struct {
			Spec struct {
				Containers []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Args    []string `yaml:"args"`
	EnvFrom []struct {
		ConfigMapRef struct {
			Name string `yaml:"name"`
		} `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Env []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			SecretKeyRef struct {
				Name string `yaml:"name"`
				Key  string `yaml:"key"`
			} `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
}

// render is helm template of a chart under deploy/helm.
func render(t *testing.T, release, chart string, args ...string) []object {
	t.Helper()
	root := checkout(t)
	charts := filepath.Join(root, "deploy", "helm")
	for i, arg := range args {
		if i > 0 && args[i-1] == "--values" {
			args[i] = filepath.Join(charts, arg)
		}
	}
	// Helm at the version that the checkout pins; the compiler's cache keeps it built.
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "helm", "template", release, filepath.Join(charts, chart)}, args...)...)
	cmd.Dir = filepath.Join(root, "scripts", "tools", "helm")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=") //nolint:forbidigo // the compiler's own environment, not a service's
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	require.NoError(t, cmd.Run(), "helm template %s: %s", chart, &said)
	var objects []object
	for decoder := yaml.NewDecoder(&out); ; {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		objects = append(objects, o)
	}
}

// checkout is the folder that holds go.work.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no folder above holds go.work")
		dir = parent
	}
}
