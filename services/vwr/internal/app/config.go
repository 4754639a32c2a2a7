// Package app wires the service.
package app

import (
	"errors"

	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/token"
)

// Config is the service's environment.
type Config struct {
	lifecycle.Config
	RPC rpc.ServerConfig

	Dynamo dynamo.Config
	// Queue reports how full tier 2 is; without an address the inlet MAX_IN_FLIGHT serves at the
	// configured rate.
	Queue rpc.Peer `env:", prefix=QUEUE_"`
	// RecordsPerWrite is how many new positions are stored by one call: 1 puts each by itself; more
	// make one transaction, which saves calls and costs twice the write units.
	RecordsPerWrite int `env:"VWR_RECORDS_PER_WRITE, default=1" min:"1" max:"100"`
	// TokenSecret signs tokens and tickets and makes request ids: kid:secret[,kid:secret…], each
	// secret at least 32 bytes.
	TokenSecret config.Secret `env:"VWR_TOKEN_SECRET, required"`
}

// Validate checks what needs more than one variable, or more than a type.
func (c *Config) Validate() error {
	var problems []error
	if _, err := token.ParseKeySet(c.TokenSecret); err != nil {
		problems = append(problems, config.Invalid("VWR_TOKEN_SECRET", c.TokenSecret, err.Error()))
	}
	if c.Queue.Addr != "" && c.Queue.Key == "" {
		problems = append(problems, config.Missing("QUEUE_RPC_KEY", "the key of the pair vwr → queue, needed with QUEUE_ADDR"))
	}
	return errors.Join(problems...)
}
