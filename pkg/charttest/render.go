// Package charttest renders the Helm charts and returns the environment of a service's container,
// so that a service's tests can load it and charts and code cannot diverge.
package charttest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/pkg/testkit"
)

// kubeObject is the part of a Kubernetes object that the tests read.
type kubeObject struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Template struct {
			Spec struct {
				Containers []kubeContainer `yaml:"containers"`
				Volumes    []kubeVolume    `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type kubeVolume struct {
	Name      string `yaml:"name"`
	Projected struct {
		Sources []struct {
			Secret struct {
				Name  string `yaml:"name"`
				Items []struct {
					Key  string `yaml:"key"`
					Path string `yaml:"path"`
				} `yaml:"items"`
			} `yaml:"secret"`
		} `yaml:"sources"`
	} `yaml:"projected"`
}

type kubeContainer struct {
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
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

func renderChart(t *testing.T, release, chart string, args ...string) []kubeObject {
	t.Helper()
	testkit.SkipIfShort(t, "tests that start Helm")
	charts := filepath.Join(checkoutFolder(t), "deploy", "helm")
	for i, arg := range args {
		if i > 0 && args[i-1] == "--values" {
			args[i] = filepath.Join(charts, arg)
		}
	}
	helm, err := helmPath()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), helm, append([]string{"template", release, filepath.Join(charts, chart)}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(t, cmd.Run(), "helm template %s: %s", chart, &stderr)
	return Decode[kubeObject](t, out.Bytes())
}

// Decode reads YAML documents, such as the objects of a rendered chart, into values of type O.
func Decode[O any](t *testing.T, documents []byte) []O {
	t.Helper()
	var objects []O
	for decoder := yaml.NewDecoder(bytes.NewReader(documents)); ; {
		var o O
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		objects = append(objects, o)
	}
}

// helmPath returns the path of the Helm binary: URR_TEST_HELM if it is set, else the binary of the
// pinned version, which the go command builds once and caches.
var helmPath = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("URR_TEST_HELM"); path != "" { //nolint:forbidigo // tests have no Config
		return path, nil
	}
	root, err := findCheckout()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-n", "helm")
	cmd.Dir = filepath.Join(root, "scripts", "tools", "helm")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=") //nolint:forbidigo // the compiler's own environment, not a service's
	path, err := cmd.Output()
	return strings.TrimSpace(string(path)), err
})

func checkoutFolder(t *testing.T) string {
	t.Helper()
	root, err := findCheckout()
	require.NoError(t, err)
	return root
}

// findCheckout returns the nearest folder above the working directory that holds go.work.
func findCheckout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no folder above holds go.work")
		}
		dir = parent
	}
}
