package charttest

import (
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
)

// Development returns the configuration of a service in the umbrella chart with the development
// values, including the secrets that the chart generates. Its migration container gets the same. C
// must know every variable.
func Development[C any](t *testing.T, service string, args ...string) *C {
	t.Helper()
	args = append([]string{
		"--values", "urr/values-development.yaml",
		"--set", "global.kafka.brokers={kafka:9092}", "--set", "global.redis.addresses={redis:6379}",
		"--set", "global.dynamodb.endpoint=http://dynamodb:8000", "--set", "secrets.databaseURL=postgres://urr@postgres:5432/%s",
		"--set", "secrets.generate=always",
	}, args...)
	objects := renderChart(t, "urr", "urr", args...)
	return loadConfig[C](t, "urr-"+service, objects, secretsOf(objects))
}

// Production returns the configuration of a service from its own chart, with secrets created outside
// the chart and peers elsewhere, at <name>:9000. The arguments are helm's, such as --set.
func Production[C any](t *testing.T, service string, args ...string) *C {
	t.Helper()
	requireSettable[C](t, service)
	args = append(peerAddresses(t, service), args...)
	cfg := loadConfig[C](t, service, renderChart(t, service, service, args...), externalSecret)
	variables := loadConfig[C](t, service, renderChart(t, service, service, append(args, "--set", "mountSecrets=false")...), externalSecret)
	require.Equal(t, config.SecretContents(cfg), config.SecretContents(variables), "secrets are the same as files")
	return cfg
}

// libraryVariables are variables that no Config has: those of Go, of other libraries, the AWS SDK
// and OpenTelemetry.
var libraryVariables = regexp.MustCompile(`^(GOMEMLIMIT|SSL_CERT_DIR|POD_NAME|RPC_KEY_OF_.*|AWS_.*|OTEL_.*)$`)

// loadConfig reads the environment of the Deployment and of the migration, if there is one.
func loadConfig[C any](t *testing.T, name string, objects []object, secret func(name, key string) (string, bool)) *C {
	t.Helper()
	env := environment(t, "Deployment", name, objects, secret)
	require.NotNil(t, env, "the chart has no Deployment %s", name)
	known := config.Variables[C]()
	for _, secret := range config.Secrets[C]() {
		known = append(known, secret+config.FileSuffix)
	}
	for variable := range env {
		require.True(t, libraryVariables.MatchString(variable) || slices.Contains(known, variable), "the chart sets %s, which the service does not read", variable)
	}
	if migration := environment(t, "Job", name+"-migrate", objects, secret); migration != nil {
		require.Equal(t, env, migration, "the migration must have the service's environment")
	}
	cfg, err := config.LoadFrom[C](t.Context(), mountSecrets(t, name, objects, env, secret))
	require.NoError(t, err)
	return cfg
}

// mountSecrets writes the files of the mounted Secrets and returns the environment with their
// paths.
func mountSecrets(t *testing.T, name string, objects []object, env map[string]string, secret func(name, key string) (string, bool)) map[string]string {
	t.Helper()
	i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == "Deployment" && o.Metadata.Name == name })
	root, pod := t.TempDir(), objects[i].Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		v := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		require.GreaterOrEqual(t, v, 0, "%s mounts %s, which the pod does not have", name, m.Name)
		for _, source := range pod.Volumes[v].Projected.Sources {
			for _, item := range source.Secret.Items {
				content, found := secret(source.Secret.Name, item.Key)
				require.True(t, found, "%s mounts %s of the Secret %s, which nobody makes", name, item.Key, source.Secret.Name)
				path := filepath.Join(root, m.MountPath, item.Path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			}
		}
	}
	mounted := maps.Clone(env)
	for variable, path := range env {
		if strings.HasSuffix(variable, config.FileSuffix) {
			mounted[variable] = filepath.Join(root, path)
		}
	}
	return mounted
}

// environment returns the environment of the only container of an object; nil when the object does
// not exist.
func environment(t *testing.T, kind, name string, objects []object, secret func(name, key string) (string, bool)) map[string]string {
	t.Helper()
	i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		return nil
	}
	containers := objects[i].Spec.Template.Spec.Containers
	require.Len(t, containers, 1)
	env := map[string]string{}
	for _, from := range containers[0].EnvFrom {
		j := slices.IndexFunc(objects, func(o object) bool { return o.Kind == "ConfigMap" && o.Metadata.Name == from.ConfigMapRef.Name })
		require.GreaterOrEqual(t, j, 0, "%s %s reads the ConfigMap %s, which the chart does not have", kind, name, from.ConfigMapRef.Name)
		for variable, value := range objects[j].Data {
			env[variable] = value
		}
	}
	for _, e := range containers[0].Env {
		value := e.Value
		if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" {
			made, found := secret(ref.Name, ref.Key)
			require.True(t, found, "%s %s reads %s of the Secret %s, which nobody makes", kind, name, ref.Key, ref.Name)
			value = made
		}
		require.NotContains(t, env, e.Name, "set twice")
		for known, v := range env { // as Kubernetes does, for variables that stand before
			value = strings.ReplaceAll(value, "$("+known+")", v)
		}
		env[e.Name] = value
	}
	return env
}

func secretsOf(objects []object) func(name, key string) (string, bool) {
	return func(name, key string) (string, bool) {
		for _, o := range objects {
			if o.Kind == "Secret" && o.Metadata.Name == name {
				value, ok := o.StringData[key]
				return value, ok
			}
		}
		return "", false
	}
}

func externalSecret(name, key string) (string, bool) {
	switch {
	case name == "urr-ticket-code", name == "urr-draw-statement", name == "urr-draw-receipt":
		return "1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32))), true
	case key == "url":
		return "postgres://urr:secret@database.example:5432/urr?sslmode=verify-full", true
	default:
		return strings.Repeat("k", 40), true
	}
}
