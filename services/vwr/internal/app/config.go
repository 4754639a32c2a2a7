// Package app builds the vwr service from its configuration and runs it.
package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/token"
	"urr.guru/services/vwr/internal/lobby"
)

// Config is the service's configuration, which is read from environment variables.
type Config struct {
	lifecycle.Config
	RPC rpc.ServerConfig

	Dynamo dynamo.Config
	// Queue reports how full tier 2 is; without an address the inlet MAX_IN_FLIGHT serves at the
	// configured rate.
	Queue rpc.OptionalPeer `env:", prefix=QUEUE_"`
	// Ingest tells whether promotions exist and have ended; without an address rooms that lead to one
	// are not checked.
	Ingest rpc.OptionalPeer `env:", prefix=INGEST_"`
	// Reward tells whether campaigns exist and have ended; without an address rooms that lead to one
	// are not checked.
	Reward rpc.OptionalPeer `env:", prefix=REWARD_"`
	// TokenSecret signs tokens and positions and makes request ids: kid:secret[,kid:secret…], each
	// secret at least 32 bytes.
	TokenSecret config.Secret `env:"VWR_TOKEN_SECRET, required"`
	// TicketSecret signs tickets for the gateways that answer polls, in the same form.
	TicketSecret config.Secret `env:"VWR_TICKET_SECRET, required"`

	// LobbyLead is how long before the start a lobby closes. Less than 3m is for development only:
	// fewer people can save the list of the entries before the beacon's value is known.
	LobbyLead time.Duration `env:"VWR_LOBBY_LEAD, default=3m" min:"80s" max:"1h"`
	// DrawSecret holds the keys from which the seeds of shuffles are derived, as in worker. A key must
	// stay until its lobbies have started. No lobby can open without this and the two sets below.
	DrawSecret config.Secret `env:"DRAW_SECRET"`
	// DrawStatementKeys sign the lists of entries, as in worker. They are Ed25519 keys,
	// kid:seed[,kid:seed…], each seed 32 bytes in base64.
	DrawStatementKeys config.Secret `env:"DRAW_STATEMENT_KEYS"`
	// DrawReceiptKeys sign receipts, as in ingest: Ed25519, in the same form.
	DrawReceiptKeys config.Secret `env:"DRAW_RECEIPT_KEYS"`
	// BeaconURLs are the base URLs from which the values of beacons are fetched, such as
	// https://api.drand.sh. The values are verified.
	BeaconURLs []string `env:"BEACON_URLS"`
}

// Validate checks what the tags of the fields cannot express: the forms of the keys.
func (c *Config) Validate() error {
	var problems []error
	for name, secret := range map[string]config.Secret{"VWR_TOKEN_SECRET": c.TokenSecret, "VWR_TICKET_SECRET": c.TicketSecret} {
		if _, err := token.ParseKeySet(secret); err != nil {
			problems = append(problems, config.Invalid(name, secret, err.Error()))
		}
	}
	for callee, peer := range map[string]rpc.OptionalPeer{"queue": c.Queue, "ingest": c.Ingest, "reward": c.Reward} {
		if prefix := strings.ToUpper(callee); peer.Addr != "" && peer.Key == "" {
			problems = append(problems, config.Missing(prefix+"_RPC_KEY", fmt.Sprintf("the key of the pair vwr → %s, needed with %s_ADDR", callee, prefix)))
		}
	}
	if _, err := c.lobbyKeys(); err != nil {
		problems = append(problems, err)
	}
	if _, err := beacon.NewSources(c.BeaconURLs, nil); err != nil {
		problems = append(problems, config.Invalid("BEACON_URLS", c.BeaconURLs, err.Error()))
	}
	return errors.Join(problems...)
}

func (c *Config) lobbyKeys() (lobby.Keys, error) {
	return lobby.ParseKeys(
		fairdraw.KeyConfig{DrawSecret: c.DrawSecret, DrawStatementKeys: c.DrawStatementKeys}, fairdraw.ReceiptConfig{DrawReceiptKeys: c.DrawReceiptKeys})
}
