// Package app builds the stats service from its configuration and runs it.
package app

import (
	"time"

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
	// Ticket is the ticket service, which knows the time zones of events.
	Ticket rpc.Peer `env:", prefix=TICKET_"`

	// ReadMaxConns bounds the connections for reads of figures and acts, in addition to those of the
	// consumer.
	ReadMaxConns int `env:"DATABASE_READ_MAX_CONNS, default=4" min:"1" max:"1000"`
	// AuditRetention is how long the acts of operators are kept. The Kafka topic keeps them longer.
	AuditRetention time.Duration `env:"AUDIT_RETENTION, default=17520h" min:"24h" max:"876000h"`
}

// readPoolConfig returns the configuration of the connection pool for reads.
func (c *Config) readPoolConfig() postgres.Config {
	reads := c.Postgres
	reads.MaxConns = c.ReadMaxConns
	return reads
}
