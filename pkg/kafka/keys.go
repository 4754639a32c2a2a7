package kafka

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"urr.guru/pkg/config"
)

// keyIDSize is the length of a key's id: the first bytes of the SHA-256 of the public key.
const keyIDSize = 8

type keyID [keyIDSize]byte

func keyIDOf(public crypto.PublicKey) []byte {
	key, _ := public.(ed25519.PublicKey)
	sum := sha256.Sum256(key)
	return sum[:keyIDSize]
}

// parseSigningKey reads the PEM block of an Ed25519 key (PKCS #8, as of `openssl genpkey -algorithm
// ed25519`). Errors contain nothing of it.
func parseSigningKey(s config.Secret) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode([]byte(s.Reveal()))
	if block == nil {
		return nil, errors.New("must be a PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("must be an Ed25519 key in PKCS #8")
	}
	return key, nil
}

// parsePublicKeys reads one or more PEM blocks of Ed25519 keys: public keys (`openssl pkey -pubout`),
// or certificates, of which nothing but the key counts.
func parsePublicKeys(s config.Secret) (map[keyID]ed25519.PublicKey, error) {
	keys := map[keyID]ed25519.PublicKey{}
	for rest := []byte(s.Reveal()); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		var parsed any
		var err error
		if block.Type == "CERTIFICATE" {
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				parsed = c.PublicKey
			}
		} else {
			parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("PEM block %d must be an Ed25519 public key, or a certificate with one", len(keys)+1)
		}
		keys[keyID(keyIDOf(key))] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("must be PEM blocks")
	}
	return keys, nil
}

// keysEvery is how often the files of keys are read again while records are signed or checked.
const keysEvery = 5 * time.Second

// reread is a value that is read again, at most once per keysEvery.
type reread[T any] struct {
	every time.Duration
	read  func() T

	mu    sync.Mutex
	value T
	until time.Time
}

func (r *reread[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.until) {
		r.value, r.until = r.read(), now.Add(r.every)
	}
	return r.value
}

// Validate checks the keys, if there are any. A key may sign only once its public key is known:
// consumers would refuse its records.
func (c Config) Validate() error {
	keys, err := parseAllPublicKeys(c.PublicKeys)
	if err != nil || c.SigningKey == "" {
		return err
	}
	key, err := parseSigningKey(c.SigningKey)
	if err != nil {
		return config.Invalid("EVENT_SIGNING_KEY", c.SigningKey.String(), err.Error())
	}
	if !keys.have(key) {
		return config.Invalid("EVENT_SIGNING_KEY", c.SigningKey.String(), "must be a key whose public key is in EVENT_PUBLIC_KEYS; add that first")
	}
	return nil
}

func (k publicKeysOf) have(key ed25519.PrivateKey) bool {
	for _, of := range k {
		if of[keyID(keyIDOf(key.Public()))] != nil {
			return true
		}
	}
	return false
}

// newSigningKey returns the key of Config.SigningKey. Its file may change: a new key signs as soon as
// its public key is known.
func newSigningKey(cfg Config, public *publicKeys) (*reread[ed25519.PrivateKey], error) {
	if _, err := parseSigningKey(cfg.SigningKey); err != nil {
		return nil, config.Invalid("EVENT_SIGNING_KEY", cfg.SigningKey.String(), err.Error())
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	usable := func(s config.Secret) bool {
		key, err := parseSigningKey(s)
		return err == nil && public.get().have(key)
	}
	latest := config.LatestSecret("EVENT_SIGNING_KEY", cfg.SigningKeyFile, cfg.SigningKey, usable)
	return &reread[ed25519.PrivateKey]{every: keysEvery, read: func() ed25519.PrivateKey {
		key, _ := parseSigningKey(latest()) // LatestSecret returns usable content only
		return key
	}}, nil
}

type publicKeysOf map[string]map[keyID]ed25519.PublicKey // by service

// publicKeys are the keys whose signatures count. Their files may change.
type publicKeys struct{ reread[publicKeysOf] }

func newPublicKeys(cfg Config) (*publicKeys, error) {
	if _, err := parseAllPublicKeys(cfg.PublicKeys); err != nil {
		return nil, err
	}
	usable := func(all map[string]config.Secret) bool { _, err := parseAllPublicKeys(all); return err == nil }
	latest := config.LatestSecrets("EVENT_PUBLIC_KEYS", cfg.PublicKeysFile, cfg.PublicKeys, usable)
	return &publicKeys{reread[publicKeysOf]{every: keysEvery, read: func() publicKeysOf {
		keys, _ := parseAllPublicKeys(latest())
		return keys
	}}}, nil
}

// parseAllPublicKeys returns the keys of each service. Errors name the service.
func parseAllPublicKeys(all map[string]config.Secret) (publicKeysOf, error) {
	keys := publicKeysOf{}
	for service, text := range all {
		of, err := parsePublicKeys(text)
		if err != nil {
			return nil, config.Invalid("EVENT_PUBLIC_KEYS", service, err.Error())
		}
		keys[service] = of
	}
	return keys, nil
}

// find returns a key of a service; nil for an unknown one.
func (k *publicKeys) find(service string, id keyID) ed25519.PublicKey { return k.get()[service][id] }
