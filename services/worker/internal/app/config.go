// Package app wires the service.
package app

import (
	"time"

	"urr.guru/pkg/asyncevent/queue"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/sqs"
)

// Config is what the service reads from its environment.
type Config struct {
	lifecycle.Config
	RPC    rpc.ServerConfig
	Dynamo dynamo.Config
	Kafka  kafka.Config
	Queue  queue.Config
	// SQSEndpoint is the URL of a local substitute; empty = AWS, with the process's own credentials.
	SQSEndpoint string `env:"SQS_ENDPOINT"`

	// Admissions is the name of the queue of admissions that queue publishes, without the suffix .fifo;
	// empty: they are not read.
	Admissions string `env:"ADMISSIONS_QUEUE"`
	// Receivers is the number of batches that a replica settles at a time; each is of other promotions.
	Receivers int `env:"WORKER_RECEIVERS, default=4" min:"1" max:"64"`
	// MaxAttempts is the number of failed attempts after which a request fails.
	MaxAttempts int `env:"WORKER_MAX_ATTEMPTS, default=5" min:"1" max:"50"`
	// RetryDelay is the pause after the first failed attempt, in whole seconds; it grows with each. The
	// other requests to the promotion wait too, since their order counts.
	RetryDelay time.Duration `env:"WORKER_RETRY_DELAY, default=1s" min:"0s" max:"1m"`
}

func (c *Config) sqs() sqs.Config {
	return sqs.Config{Region: c.Dynamo.Region, Endpoint: c.SQSEndpoint}
}
