// Package authority issues the certificates of services, for development and tests. Installations
// have cert-manager, or the charts' own authority.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
)

// KeyPair is a certificate and its private key, in PEM.
type KeyPair struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// New makes an authority that is valid until end.
func New(end time.Time) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template := newTemplate("urr", end)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	return sign(template, key, template, key)
}

// Issue makes the certificate of a service, which is valid until end, for both ends of calls.
func (a KeyPair) Issue(service string, end time.Time) (KeyPair, error) {
	issuer, err := tls.X509KeyPair([]byte(a.Cert), []byte(a.Key))
	if err != nil {
		return KeyPair{}, fmt.Errorf("authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template := newTemplate(service, end)
	template.DNSNames, template.KeyUsage = []string{service}, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return sign(template, key, issuer.Leaf, issuer.PrivateKey)
}

// Config returns the setting of a service with this certificate, which trusts the authorities.
func (a KeyPair) Config(authorities ...KeyPair) rpc.TLSConfig {
	var trusted strings.Builder
	for _, other := range authorities {
		trusted.WriteString(other.Cert)
	}
	return rpc.TLSConfig{Certificate: map[string]config.Secret{
		rpc.CertificateMember: config.Secret(a.Cert), rpc.KeyMember: config.Secret(a.Key), rpc.AuthoritiesMember: config.Secret(trusted.String()),
	}}
}

// newTemplate begins an hour ago or, if it ends before, an hour before that: clocks may differ.
func newTemplate(name string, end time.Time) *x509.Certificate {
	begin := time.Now()
	if end.Before(begin) {
		begin = end
	}
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: begin.Add(-time.Hour), NotAfter: end}
}

func sign(template *x509.Certificate, key *ecdsa.PrivateKey, issuer *x509.Certificate, issuerKey crypto.PrivateKey) (KeyPair, error) {
	cert, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		return KeyPair{}, fmt.Errorf("authority: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("authority: %w", err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return KeyPair{Cert: encode("CERTIFICATE", cert), Key: encode("PRIVATE KEY", der)}, nil
}
