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
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

// DevelopmentConfig returns the configuration that the umbrella chart gives a service with the
// development values, including the secrets that the chart generates. The test fails if the
// migration container gets another environment, or if C has no field for one of the variables.
func DevelopmentConfig[C any](t *testing.T, service string, args ...string) *C {
	t.Helper()
	args = append([]string{
		"--values", "urr/values-development.yaml",
		"--set", "global.kafka.brokers={kafka:9092},global.kafka.plain=development", "--set", "global.redis.addresses={redis:6379}",
		"--set", "global.dynamodb.endpoint=http://dynamodb:8000", "--set", "secrets.databaseURL=postgres://urr@postgres:5432/%s",
		"--set", "secrets.generate=always",
	}, args...)
	objects := renderChart(t, "urr", "urr", args...)
	return loadConfig[C](t, "urr-"+service, objects, chartSecretLookup(objects))
}

// ProductionConfig returns the configuration that a service's own chart gives it, with secrets
// created outside the chart and the other services at <name>:9000. args are further helm arguments.
func ProductionConfig[C any](t *testing.T, service string, args ...string) *C {
	t.Helper()
	requireVariablesSettable[C](t, service)
	args = append(peerAddresses(t, service), args...)
	cfg := loadConfig[C](t, service, renderChart(t, service, service, args...), fakeExternalSecret)
	variables := loadConfig[C](t, service, renderChart(t, service, service, append(args, "--set", "mountSecrets=false")...), fakeExternalSecret)
	require.Equal(t, config.SecretContents(cfg), config.SecretContents(variables), "secrets are the same as files")
	return cfg
}

// PartConfig is ProductionConfig for a second Deployment of the service, <service>-<part>.
func PartConfig[C any](t *testing.T, service, part string, args ...string) *C {
	t.Helper()
	return loadConfig[C](t, service+"-"+part, renderChart(t, service, service, append(peerAddresses(t, service), args...)...), fakeExternalSecret)
}

// libraryVariables matches the variables that libraries read and no Config has, such as those of
// Go, of the AWS SDK and of OpenTelemetry.
var libraryVariables = regexp.MustCompile(`^(GOMEMLIMIT|SSL_CERT_DIR|POD_NAME|RPC_KEY_OF_.*|EVENT_KEY_OF_.*|RPC_(TLS|CA)_(CRT|KEY)|AWS_.*|OTEL_.*)$`)

// loadConfig loads a C from the environment of the Deployment with that name. It fails if the
// migration Job, if there is one, has another environment.
func loadConfig[C any](t *testing.T, name string, objects []kubeObject, lookup func(secretName, key string) (content string, found bool)) *C {
	t.Helper()
	env := containerEnvironment(t, "Deployment", name, objects, lookup)
	require.NotNil(t, env, "the chart has no Deployment %s", name)
	serviceVariables := config.Variables[C]()
	for _, secret := range config.Secrets[C]() {
		serviceVariables = append(serviceVariables, secret+config.FileSuffix)
	}
	for variable := range env {
		require.True(t, libraryVariables.MatchString(variable) || slices.Contains(serviceVariables, variable), "the chart sets %s, which the service does not read", variable)
	}
	if migration := containerEnvironment(t, "Job", name+"-migrate", objects, lookup); migration != nil {
		require.Equal(t, env, migration, "the migration must have the service's environment")
	}
	cfg, err := config.LoadFrom[C](t.Context(), mountSecrets(t, name, objects, env, lookup))
	require.NoError(t, err)
	return cfg
}

// mountSecrets writes the files of the mounted Secrets into a temporary folder. It returns the
// environment with the paths of these files.
func mountSecrets(t *testing.T, name string, objects []kubeObject, env map[string]string, lookup func(secretName, key string) (content string, found bool)) map[string]string {
	t.Helper()
	i := slices.IndexFunc(objects, func(o kubeObject) bool { return o.Kind == "Deployment" && o.Metadata.Name == name })
	root, pod := t.TempDir(), objects[i].Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		v := slices.IndexFunc(pod.Volumes, func(v kubeVolume) bool { return v.Name == m.Name })
		require.GreaterOrEqual(t, v, 0, "%s mounts %s, which the pod does not have", name, m.Name)
		for _, source := range pod.Volumes[v].Projected.Sources {
			for _, item := range source.Secret.Items {
				content, found := lookup(source.Secret.Name, item.Key)
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

// containerEnvironment returns the environment of the only container of a Deployment or Job; nil
// when it does not exist.
func containerEnvironment(t *testing.T, kind, name string, objects []kubeObject, lookup func(secretName, key string) (content string, found bool)) map[string]string {
	t.Helper()
	i := slices.IndexFunc(objects, func(o kubeObject) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		return nil
	}
	containers := objects[i].Spec.Template.Spec.Containers
	require.Len(t, containers, 1)
	env := map[string]string{}
	for _, source := range containers[0].EnvFrom {
		j := slices.IndexFunc(objects, func(o kubeObject) bool { return o.Kind == "ConfigMap" && o.Metadata.Name == source.ConfigMapRef.Name })
		require.GreaterOrEqual(t, j, 0, "%s %s reads the ConfigMap %s, which the chart does not have", kind, name, source.ConfigMapRef.Name)
		for variable, value := range objects[j].Data {
			env[variable] = value
		}
	}
	for _, e := range containers[0].Env {
		value := e.Value
		if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" {
			fromSecret, found := lookup(ref.Name, ref.Key)
			require.True(t, found, "%s %s reads %s of the Secret %s, which nobody makes", kind, name, ref.Key, ref.Name)
			value = fromSecret
		}
		require.NotContains(t, env, e.Name, "set twice")
		for earlier, v := range env { // expand $(NAME) of earlier variables, as Kubernetes does
			value = strings.ReplaceAll(value, "$("+earlier+")", v)
		}
		env[e.Name] = value
	}
	return env
}

func chartSecretLookup(objects []kubeObject) func(name, key string) (content string, found bool) {
	return func(name, key string) (content string, found bool) {
		for _, o := range objects {
			if o.Kind == "Secret" && o.Metadata.Name == name {
				value, ok := o.StringData[key]
				return value, ok
			}
		}
		return "", false
	}
}

func fakeExternalSecret(name, key string) (string, bool) {
	switch {
	case name == "urr-ticket-code", name == "urr-draw-statement", name == "urr-draw-receipt":
		return "1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32))), true
	case strings.HasPrefix(name, "urr-events-"):
		keys := kafkatest.WithKeys(kafka.Config{})
		pem := map[string]config.Secret{"key": keys.SigningKey, "public": keys.PublicKeys[kafkatest.Writer]}[key]
		return strings.TrimSpace(pem.Reveal()), true
	case key == "url":
		return "postgres://urr:secret@database.example:5432/urr?sslmode=verify-full", true
	case name == "stripe" && key == "key": // keys of tests, as SANDBOX=development demands
		return "sk_test_" + strings.Repeat("k", 32), true
	case name == "toss":
		return "test_sk_" + strings.Repeat("k", 32), true
	default:
		return strings.Repeat("k", 40), true
	}
}
