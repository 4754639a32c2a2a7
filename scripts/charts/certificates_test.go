package charts_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
)

// generatedSecret has the fields of a Secret that the tests read.
type generatedSecret struct {
	Kind       string
	Metadata   struct{ Name string }
	StringData map[string]config.Secret `yaml:"stringData"`
}

// generatedSecrets renders the umbrella and returns its Secrets by name.
func generatedSecrets(t *testing.T, b fixture) map[string]map[string]config.Secret {
	t.Helper()
	secrets := map[string]map[string]config.Secret{}
	out := b.run(t, nil, "helm", append([]string{"template", "urr", b.charts("urr")}, b.umbrellaArgs()...)...)
	for _, s := range charttest.Decode[generatedSecret](t, out) {
		if s.Kind == "Secret" {
			secrets[s.Metadata.Name] = s.StringData
		}
	}
	return secrets
}

// Each service accepts the certificate that the umbrella generates for it.
func TestGeneratedCertificatesAreValid(t *testing.T) {
	t.Parallel()
	secrets := generatedSecrets(t, setup(t))
	for _, name := range serviceNames() {
		_, err := rpc.NewIdentity(name, rpc.TLSConfig{Certificate: secrets["urr-tls-"+name]})
		require.NoError(t, err, name)
	}
}

// A service that is installed later gets a certificate of the authority that issued the others.
func TestGeneratedAuthorityIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	authority := generatedSecrets(t, b)["urr-tls-authority"]
	encoded := func(member string) string {
		return base64.StdEncoding.EncodeToString([]byte(authority[member].Reveal()))
	}
	chart := filepath.Join(copyCharts(t, b), "urr")
	require.NoError(t, os.RemoveAll(filepath.Join(chart, "tests")))
	require.NoError(t, os.Mkdir(filepath.Join(chart, "tests"), 0o755))
	suite := fmt.Sprintf(`suite: kept authority
release: {name: urr, namespace: shop}
templates: [templates/secrets.yaml]
set: {secrets.generate: always, global.kafka.brokers: ["kafka:9092"], global.redis.addresses: ["redis:6379"]}
kubernetesProvider:
  scheme:
    v1/Secret: {gvr: {version: v1, resource: secrets}, namespaced: true}
  objects:
    - {apiVersion: v1, kind: Secret, metadata: {name: urr-tls-authority, namespace: shop}, data: {tls.crt: %q, tls.key: %q}}
tests:
  - it: issues a certificate
    documentSelector: {path: metadata.name, value: urr-tls-ticket}
    asserts:
      - equal:
          path: 'stringData["ca.crt"]'
          value: |
            %s
  - it: makes no other authority
    asserts:
      - containsDocument: {apiVersion: v1, kind: Secret, name: urr-tls-authority, any: true}
        not: true
`, encoded("tls.crt"), encoded("tls.key"), strings.ReplaceAll(strings.TrimSpace(authority["tls.crt"].Reveal()), "\n", "\n            "))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "tests", "authority_test.yaml"), []byte(suite), 0o600))
	b.unit(t, chart, nil)
}
