package platform

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"urr.guru/scripts/internal/process"
)

// Secrets are what the services of one checkout, or of one test run, share pairwise or alone. They
// are made up once and never leave the machine.
type Secrets struct {
	VWRToken       string            `json:"vwr_token"`
	EntryToken     string            `json:"entry_token"`
	Session        string            `json:"session"`
	TicketCode     string            `json:"ticket_code"` // kid:base64 of an Ed25519 seed
	SandboxWebhook string            `json:"sandbox_webhook"`
	RPC            map[string]string `json:"rpc"` // "caller>callee" → key of that pair
}

// NewSecrets makes up every secret, 32 random bytes each.
func NewSecrets() Secrets {
	s := Secrets{RPC: map[string]string{}}
	s.complete()
	return s
}

// LoadSecrets returns the secrets of a checkout. What is missing (a first start, a pair of services
// that is new) is made up and kept in .urr/secrets.json, readable by its owner only. Several may ask at once.
func LoadSecrets(ctx context.Context, l Layout) (Secrets, error) {
	path := l.State("secrets.json")
	unlock, err := process.Lock(ctx, path+".lock", nil)
	if err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	defer unlock()
	s := Secrets{RPC: map[string]string{}}
	if _, err := process.Load(path, &s); err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	if !s.complete() {
		return s, nil
	}
	if err := process.Save(path, s); err != nil {
		return Secrets{}, fmt.Errorf("keep secrets: %w", err)
	}
	return s, nil
}

// complete makes up what is missing and tells whether anything was.
func (s *Secrets) complete() (changed bool) {
	for _, field := range []*string{&s.VWRToken, &s.EntryToken, &s.Session, &s.SandboxWebhook} {
		if *field == "" {
			*field, changed = hex.EncodeToString(random32()), true
		}
	}
	if s.TicketCode == "" {
		s.TicketCode, changed = "1:"+base64.StdEncoding.EncodeToString(random32()), true
	}
	for _, callee := range Services() {
		for _, caller := range Callers(callee.Name) {
			if pair := caller + ">" + callee.Name; s.RPC[pair] == "" {
				s.RPC[pair], changed = hex.EncodeToString(random32()), true
			}
		}
	}
	return changed
}

func random32() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // documented never to fail
	return b
}
