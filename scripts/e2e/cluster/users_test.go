package cluster_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
)

// kafkaListener describes the listener for pods: a user for each service, and a certificate of the
// cluster's own authority, which pods trust by the ConfigMap kube-root-ca.crt.
func (w *world) kafkaListener(t *testing.T) backends.KafkaListener {
	t.Helper()
	var pem []byte
	for _, file := range []string{"kafka.key", "kafka.crt"} {
		part, err := os.ReadFile(filepath.Join(w.checkout.Shared("cluster"), "pki", file))
		require.NoError(t, err)
		pem = append(pem, part...)
	}
	certificate := filepath.Join(t.TempDir(), "kafka.pem")
	require.NoError(t, os.WriteFile(certificate, pem, 0o600))
	w.passwords = map[string]string{}
	users := map[string]string{}
	for _, s := range platform.Services() {
		if slices.Contains(s.Backends, platform.Kafka) {
			w.passwords[s.Name] = rand.Text()
			users["urr-"+s.Name] = w.passwords[s.Name]
		}
	}
	return backends.KafkaListener{Addr: w.outside(platform.KafkaOutsidePort), Certificate: certificate, Users: users}
}

// makePasswords makes the Secrets of users in Kafka.
func (w *world) makePasswords(t *testing.T, namespace string, services ...string) {
	t.Helper()
	for _, name := range services {
		w.run(t, "kubectl", "-n", namespace, "create", "secret", "generic", "urr-kafka-"+name, "--from-literal=password="+w.passwords[name])
	}
}
