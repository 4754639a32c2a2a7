package fairdraw

import (
	"errors"
	"fmt"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

// KeyConfig has the secrets of a service that draws winners or shuffles lobbies.
type KeyConfig struct {
	// DrawSecret holds the keys that the seeds of draws are derived from, kid:key[,kid:key…] with at
	// least 32 bytes each; new draws take the first. A key must stay until every draw with it is settled.
	DrawSecret config.Secret `env:"DRAW_SECRET, required"`
	// DrawStatementKeys sign the lists of entries: Ed25519, kid:seed[,kid:seed…] with 32 bytes in base64
	// each; new draws take the first. A key must stay until every draw with it is settled.
	DrawStatementKeys config.Secret `env:"DRAW_STATEMENT_KEYS, required"`
}

// ReceiptConfig has the secrets of a service that accepts entries. They are not those of KeyConfig:
// whoever steals them can neither compute a result nor sign a list of entries.
type ReceiptConfig struct {
	// DrawReceiptKeys sign receipts: Ed25519, kid:seed[,kid:seed…] with 32 bytes in base64 each; new draws
	// take the first. A key must stay until every draw with it is closed.
	DrawReceiptKeys config.Secret `env:"DRAW_RECEIPT_KEYS, required"`
}

// Keys parses the secrets. Errors name the variable and never contain a secret.
func (c ReceiptConfig) Keys() (token.SigningKeys, error) {
	keys, err := token.ParseSigningKeys(c.DrawReceiptKeys)
	if err != nil {
		return keys, config.Invalid("DRAW_RECEIPT_KEYS", c.DrawReceiptKeys, err.Error())
	}
	return keys, nil
}

// Keys are the keys of a service that holds draws: Seeds derives the seeds, Statements signs the
// lists of entries. The zero value has no keys.
type Keys struct {
	Seeds      token.MACSet
	Statements token.SigningKeys
}

// Keys parses the secrets. Errors name the variable and never contain a secret.
func (c KeyConfig) Keys() (Keys, error) {
	secrets, err := token.ParseKeySet(c.DrawSecret)
	if err != nil {
		return Keys{}, config.Invalid("DRAW_SECRET", c.DrawSecret, err.Error())
	}
	statements, err := token.ParseSigningKeys(c.DrawStatementKeys)
	if err != nil {
		return Keys{}, config.Invalid("DRAW_STATEMENT_KEYS", c.DrawStatementKeys, err.Error())
	}
	return Keys{Seeds: secrets.Derive(LabelSeed), Statements: statements}, nil
}

// CheckTerms fails if k lacks a key that the commitment requires: the draw could not be finished.
func (k Keys) CheckTerms(c *Commitment) error {
	if _, ok := k.Statements.KidOf(c.StatementKey[:]); !ok {
		return ErrNoKey
	}
	if _, ok := k.Seeds.Sum(c.SeedKID); !ok {
		return fmt.Errorf("fairdraw: the seed's key %s is not in the set", c.SeedKID)
	}
	return nil
}

// ErrNoKeys means that no keys for draws are configured.
var ErrNoKeys = errors.New("fairdraw: no keys to open a draw with")

// Open completes the terms of a new draw with the current statement key and the hash of a new seed,
// and returns their canonical JSON. The nonce must be stored: the seed follows from it and is not
// stored itself. It fails with ErrNoKeys, and for terms that Validate refuses.
func (k Keys) Open(c *Commitment) (text []byte, nonce Nonce, err error) {
	nonce, c.SeedKID = NewNonce(), k.Seeds.Current()
	seed, ok := Seed(k.Seeds, c.SeedKID, c.EventID, nonce)
	public := k.Statements.Public(k.Statements.Current())
	if !ok || public == nil {
		return nil, nonce, ErrNoKeys
	}
	c.StatementKey, c.SeedHash = Hash(public), SeedHash(seed)
	text, _, err = c.Seal()
	return text, nonce, err
}
