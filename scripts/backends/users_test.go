package backends

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/proto/events"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

// This test is not parallel, since it sets the certificates that the process trusts.
//
// With a user for each service and the rights of the charts' README, a service creates its topics and
// writes them, and no topic of another service.
func TestUsersWriteTheirOwnTopicsOnly(t *testing.T) {
	checkout, err := platform.Find()
	require.NoError(t, err)
	layout := checkout.ForRun("users", checkout.Offset+4700)
	listener := KafkaListener{
		Addr: layout.LoopbackAddr(platform.KafkaOutsidePort), Certificate: certificate(t),
		Users: map[string]string{"urr-ticket": "t", "urr-payment": "p"},
	}
	s := New(layout, false, t.Logf).AddKafkaListener(listener)
	s.backends = slices.DeleteFunc(s.backends, func(b backend) bool { return b.name != "kafka" })
	require.NoError(t, s.Wipe())
	t.Cleanup(func() { require.NoError(t, s.Wipe()) })
	require.NoError(t, s.Start(t.Context()))
	require.NoError(t, topics.Grant(t.Context(), []string{layout.KafkaBroker()}, "blue-"))

	as := func(service string) kafka.Config {
		cfg := kafkatest.WithKeys(kafka.Config{Brokers: []string{listener.Addr}, ReplicationFactor: 1, TopicPrefix: "blue-", GroupPrefix: "blue-"})
		cfg.Plain, cfg.SASL, cfg.Username, cfg.Password = "", "SCRAM-SHA-512", "urr-"+service, config.Secret(listener.Users["urr-"+service])
		return cfg
	}
	require.NoError(t, kafka.EnsureTopics(t.Context(), as("ticket"), kafka.Topic{Name: events.Reservations}, kafka.TopicOfRedriven(events.Group("ticket"))))
	require.NoError(t, kafka.EnsureTopics(t.Context(), as("payment"), kafka.Topic{Name: events.Payments}))
	require.Error(t, kafka.EnsureTopics(t.Context(), as("payment"), kafka.Topic{Name: events.Transfers}))
	for _, test := range []struct {
		service, topic string
		may            bool
	}{
		{"ticket", events.Reservations, true},
		{"ticket", events.Payments, false},
		{"ticket", events.Payments + kafka.DLQSuffix, true},
		{"payment", events.Payments, true},
		{"payment", events.Reservations, false},
		{"payment", kafka.RedriveTopic(events.Group("ticket")), false},
	} {
		p, err := kafka.NewRedriver(as(test.service), test.service)
		require.NoError(t, err)
		headers := kafka.EventHeaders(uuid.New(), test.service, "X", time.Now())
		err = p.Publish(t.Context(), kafka.Record{Topic: test.topic, Key: []byte("k"), Value: []byte("{}"), Headers: headers})
		require.Equal(t, test.may, err == nil, "%s to %s: %v", test.service, test.topic, err)
		require.NoError(t, p.Close(t.Context()))
	}
}

// certificate writes a certificate for this host with its key, which the process trusts.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	path := filepath.Join(t.TempDir(), "kafka.pem")
	require.NoError(t, os.WriteFile(path, append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), public...), 0o600))
	t.Setenv("SSL_CERT_FILE", path)
	return path
}
