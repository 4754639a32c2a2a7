package platform

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"time"

	"urr.guru/pkg/filelock"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/authority"
	"urr.guru/proto/events"
	"urr.guru/scripts/process"
)

// Secrets has the services' secrets for one checkout or test run. They are generated once on this
// machine, and used only there.
type Secrets struct {
	VWRToken       string            `json:"vwr_token"`
	VWRTicket      string            `json:"vwr_ticket"`
	EntryToken     string            `json:"entry_token"`
	QueueTicket    string            `json:"queue_ticket"`
	Session        string            `json:"session"`
	Visitor        string            `json:"visitor"`
	TicketCode     string            `json:"ticket_code"` // kid:base64 of an Ed25519 seed
	SandboxWebhook string            `json:"sandbox_webhook"`
	Provider       string            `json:"provider"`       // part of the shop's keys at the fake providers
	StripeWebhook  string            `json:"stripe_webhook"` // signs the webhooks of the fake Stripe
	OIDCClient     string            `json:"oidc_client"`    // the gateway's client secret at the sandbox's identity provider
	Beacon         string            `json:"beacon"`         // determines the key of the sandbox's beacon
	Draw           string            `json:"draw"`           // kid:base64 of 32 bytes, from which the seeds of draws are derived
	DrawStatement  string            `json:"draw_statement"` // kid:base64 of an Ed25519 seed
	DrawReceipt    string            `json:"draw_receipt"`   // kid:base64 of an Ed25519 seed
	RPC            map[string]string `json:"rpc"`            // by "caller>callee": the key that signs these calls
	// Events are the keys that sign the records of each service.
	Events map[string]EventKey `json:"events"`

	Authority    authority.KeyPair            `json:"authority"`    // issues the certificates of services
	Certificates map[string]authority.KeyPair `json:"certificates"` // by service
}

// EventKey is an Ed25519 key, in PEM blocks.
type EventKey struct {
	Private string `json:"private"`
	Public  string `json:"public"`
}

// NewSecrets generates all secrets: keys from 32 random bytes, and certificates.
func NewSecrets() Secrets {
	s := emptySecrets()
	if _, err := s.generateMissing(); err != nil {
		panic(err) // never: only an authority that was read can be malformed
	}
	return s
}

func emptySecrets() Secrets {
	return Secrets{RPC: map[string]string{}, Events: map[string]EventKey{}, Certificates: map[string]authority.KeyPair{}}
}

// TLS returns the setting of a service's certificate.
func (s Secrets) TLS(service string) rpc.TLSConfig {
	return s.Certificates[service].Config(s.Authority)
}

// LoadSecrets returns the secrets of a checkout. It generates those that are missing (all at the
// first start, later the keys and certificate of a new service), and stores them in
// .urr/secrets.json, which only its owner can read. It may be called concurrently.
func LoadSecrets(ctx context.Context, l Layout) (Secrets, error) {
	path := l.State("secrets.json")
	unlock, err := filelock.Lock(ctx, path+".lock", nil)
	if err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	defer unlock()
	s := emptySecrets()
	if _, err := process.Load(path, &s); err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	changed, err := s.generateMissing()
	if err != nil {
		return Secrets{}, fmt.Errorf("generate secrets: %w", err)
	}
	if !changed {
		return s, nil
	}
	if err := process.Save(path, s); err != nil {
		return Secrets{}, fmt.Errorf("keep secrets: %w", err)
	}
	return s, nil
}

func (s *Secrets) generateMissing() (changed bool, err error) {
	for _, field := range []*string{
		&s.VWRToken, &s.VWRTicket, &s.EntryToken, &s.QueueTicket, &s.Session, &s.Visitor, &s.SandboxWebhook, &s.OIDCClient, &s.Beacon, &s.Provider, &s.StripeWebhook,
	} {
		if *field == "" {
			*field, changed = hex.EncodeToString(random32()), true
		}
	}
	for _, field := range []*string{&s.TicketCode, &s.Draw, &s.DrawStatement, &s.DrawReceipt} {
		if *field == "" {
			*field, changed = "1:"+base64.StdEncoding.EncodeToString(random32()), true
		}
	}
	for _, topic := range events.All() {
		if _, ok := s.Events[topic.Producer]; !ok {
			s.Events[topic.Producer], changed = newEventKey(), true
		}
	}
	for _, callee := range Services() {
		for _, caller := range Callers(callee.Name) {
			if pair := caller + ">" + callee.Name; s.RPC[pair] == "" {
				s.RPC[pair], changed = hex.EncodeToString(random32()), true
			}
		}
	}
	issued, err := s.issueMissing()
	return changed || issued, err
}

// certificateLife is longer than any checkout is used.
const certificateLife = 10 * 365 * 24 * time.Hour

// issueMissing makes the authority and the certificates of services that are missing.
func (s *Secrets) issueMissing() (issued bool, err error) {
	end := time.Now().Add(certificateLife)
	if s.Authority.Cert == "" {
		if s.Authority, err = authority.New(end); err != nil {
			return false, err
		}
		issued = true
	}
	for _, service := range Services() {
		if service.Name == Sandbox || s.Certificates[service.Name].Cert != "" {
			continue
		}
		if s.Certificates[service.Name], err = s.Authority.Issue(service.Name, end); err != nil {
			return false, err
		}
		issued = true
	}
	return issued, nil
}

// newEventKey makes the key with which a service signs its records.
func newEventKey() EventKey {
	key := ed25519.NewKeyFromSeed(random32())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // the type is right
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return EventKey{Private: encode("PRIVATE KEY", private), Public: encode("PUBLIC KEY", public)}
}

func random32() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never returns an error
	return b
}
