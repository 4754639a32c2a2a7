// Package app builds the ingest service from its configuration and runs it.
package app

import (
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/sqs"
)

// Config is the service's configuration, which is read from environment variables.
type Config struct {
	lifecycle.Config
	RPC    rpc.ServerConfig
	Dynamo dynamo.Config
	Queue  queue.Config
	// SQSEndpoint is the URL of a local substitute; empty = AWS, with the process's own credentials.
	SQSEndpoint string `env:"SQS_ENDPOINT"`
	Draw        fairdraw.ReceiptConfig
	// Worker opens the draws of lotteries.
	Worker rpc.Peer `env:", prefix=WORKER_"`

	// Visibility is how long a message that a worker has received stays hidden from the others, in whole
	// seconds; migrate sets it.
	Visibility time.Duration `env:"REQUESTS_VISIBILITY, default=30s" min:"1s" max:"12h"`
	// SendAfter is the age from which a request that is not in the queue is sent again.
	SendAfter time.Duration `env:"INGEST_SEND_AFTER, default=10s" min:"1s" max:"10m"`
	// FailAfter is the age from which a request that the queue does not take fails.
	FailAfter time.Duration `env:"INGEST_FAIL_AFTER, default=10m" min:"1s" max:"24h"`
	// LostAfter decides when a message counts as lost and is sent again: once the queue, after taking
	// it, has been empty for this time, or once a message that was sent this much later is settled.
	LostAfter time.Duration `env:"INGEST_LOST_AFTER, default=5m" min:"1s" max:"24h"`
	// DrawCacheMB bounds the cached data of draws, in megabytes: chunks of entries, ranks, winners and
	// exclusions. Data that is being read comes on top, up to four parts at a time.
	DrawCacheMB int64 `env:"INGEST_DRAW_CACHE_MB, default=48" min:"8" max:"4096"`
	// DrawMinDelay is the shortest time from a lottery's cutoff to the public random value (beacon) that
	// decides it. Meanwhile anybody can save the published list of entries, as proof that nobody changed
	// it once the value was known. Less than 2m is for development only.
	DrawMinDelay time.Duration `env:"INGEST_DRAW_MIN_DELAY, default=2m" min:"1s" max:"1h"`
	// DrawLead is the shortest time from the end of the delay to the announcement. Less than 2m is for
	// development only: a result that is late by little would miss its announcement.
	DrawLead time.Duration `env:"INGEST_DRAW_LEAD, default=2m" min:"1s" max:"1h"`
}

// Validate checks what the tags of the fields cannot express: rules between
// variables, keys and URLs.
func (c *Config) Validate() error {
	if c.FailAfter < c.SendAfter {
		return config.Invalid("INGEST_FAIL_AFTER", c.FailAfter, "must not be below INGEST_SEND_AFTER")
	}
	_, err := c.Draw.Keys()
	return err
}

func (c *Config) sqs() sqs.Config {
	return sqs.Config{Region: c.Dynamo.Region, Endpoint: c.SQSEndpoint}
}
