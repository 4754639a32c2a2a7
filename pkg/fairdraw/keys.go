package fairdraw

import (
	"fmt"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

// KeyConfig are the operator's secrets of draws. All services that draw need the same.
type KeyConfig struct {
	// DrawSecret holds the keys that the seeds of draws are derived from, kid:key[,kid:key…] with at
	// least 32 bytes each; new draws take the first. A key must stay until every draw with it is settled.
	DrawSecret config.Secret `env:"DRAW_SECRET, required"`
	// DrawSigningKeys sign receipts and statements: Ed25519, kid:seed[,kid:seed…] with 32 bytes in base64
	// each; new draws take the first. A key must stay until every draw with it is settled.
	DrawSigningKeys config.Secret `env:"DRAW_SIGNING_KEYS, required"`
}

// Keys are the operator's keys of draws. The zero value has none.
type Keys struct {
	Seeds   token.MACSet
	Signing token.SigningKeys
}

// Keys parses the secrets. Errors name the variable and never contain a secret.
func (c KeyConfig) Keys() (Keys, error) {
	secrets, err := token.ParseKeySet(c.DrawSecret)
	if err != nil {
		return Keys{}, config.Invalid("DRAW_SECRET", c.DrawSecret, err.Error())
	}
	signing, err := token.ParseSigningKeys(c.DrawSigningKeys)
	if err != nil {
		return Keys{}, config.Invalid("DRAW_SIGNING_KEYS", c.DrawSigningKeys, err.Error())
	}
	return Keys{Seeds: secrets.Derive(LabelSeed), Signing: signing}, nil
}

// CheckTerms fails for terms whose keys are not in the set: their draw could not be finished.
func (k Keys) CheckTerms(c *Commitment) error {
	if _, ok := k.Signing.KidOf(c.Public()); !ok {
		return ErrNoKey
	}
	if _, ok := k.Seeds.Sum(c.SeedKID); !ok {
		return fmt.Errorf("fairdraw: the seed's key %s is not in the set", c.SeedKID)
	}
	return nil
}
