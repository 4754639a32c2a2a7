// Package app builds the worker service from its configuration and runs it.
package app

import (
	"net/http"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/kafka"
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
	Kafka  kafka.Config
	Queue  queue.Config
	// SQSEndpoint is the URL of a local substitute; empty = AWS, with the process's own credentials.
	SQSEndpoint string `env:"SQS_ENDPOINT"`
	Draw        fairdraw.KeyConfig

	// Admissions is the name, without .fifo, of the SQS queue to which the queue service publishes
	// admissions; empty: they are not read.
	Admissions string `env:"ADMISSIONS_QUEUE"`
	// BeaconURLs are the relays of randomness beacons, in the order in which they are asked. Their
	// answers are verified.
	BeaconURLs []string `env:"BEACON_URLS, default=https://api.drand.sh,https://drand.cloudflare.com"`
	// DrawAfter is the time from a lottery's cutoff to its draw. Less than 10s is for development
	// only: a request that was accepted in time must have its receipt, and be in the table, by then.
	DrawAfter time.Duration `env:"WORKER_DRAW_AFTER, default=30s" min:"1s" max:"10m"`
	// Receivers is the number of batches that a replica settles at a time; each is of other
	// promotions.
	Receivers int `env:"WORKER_RECEIVERS, default=4" min:"1" max:"64"`
	// MaxAttempts is the number of failed attempts after which a request fails.
	MaxAttempts int `env:"WORKER_MAX_ATTEMPTS, default=5" min:"1" max:"50"`
	// RetryDelay is the pause after the first failed attempt, in whole seconds; it grows with each.
	// The other requests to the promotion wait too, since their order counts.
	RetryDelay time.Duration `env:"WORKER_RETRY_DELAY, default=1s" min:"0s" max:"1m"`
}

// Validate checks what the tags of the fields cannot express: the draw's keys and the
// beacon's URLs.
func (c *Config) Validate() error {
	_, err := c.Draw.Keys()
	if err == nil {
		_, err = c.beacons()
	}
	return err
}

// beaconTimeout is the time limit of one request to a relay of beacons, whatever ctx allows.
const beaconTimeout = 10 * time.Second

func (c *Config) beacons() (*beacon.Sources, error) {
	s, err := beacon.NewSources(c.BeaconURLs, &http.Client{Timeout: beaconTimeout})
	if err != nil {
		return nil, config.Invalid("BEACON_URLS", c.BeaconURLs, err.Error())
	}
	return s, nil
}

func (c *Config) sqs() sqs.Config {
	return sqs.Config{Region: c.Dynamo.Region, Endpoint: c.SQSEndpoint}
}
