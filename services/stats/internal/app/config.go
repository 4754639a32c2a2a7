// Package app wires the service.
package app

import (
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
)

// Config is what the service reads from its environment.
type Config struct {
	lifecycle.Config
	RPC      rpc.ServerConfig
	Postgres postgres.Config
	Kafka    kafka.Config
}
