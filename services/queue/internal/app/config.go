// Package app builds the queue service from its configuration and runs it.
package app

import (
	"errors"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/sqs"
	"urr.guru/pkg/token"
	"urr.guru/services/queue/internal/line"
)

// Config is the service's configuration, which is read from environment variables.
type Config struct {
	lifecycle.Config
	RPC rpc.ServerConfig

	Redis redis.Config
	Kafka kafka.Config
	SQS   sqs.Config
	// Ticket keeps the lines' settings and the events' titles.
	Ticket rpc.Peer `env:", prefix=TICKET_"`
	// EntryTokenSecret signs entry tokens: kid:secret[,kid:secret…], each secret at least 32 bytes.
	EntryTokenSecret config.Secret `env:"QUEUE_ENTRY_TOKEN_SECRET, required"`
	// TicketSecret signs and verifies queue tickets, in the same form. No other service has it.
	TicketSecret config.Secret `env:"QUEUE_TICKET_SECRET, required"`

	// Threshold is how many visitors may be inside at once, for events without a setting of their
	// own.
	Threshold int64 `env:"QUEUE_THRESHOLD, default=1000" min:"0" max:"10000000"`
	// ActiveTTL is how long a slot lasts, in seconds, for events without a setting of their own.
	ActiveTTL int64 `env:"QUEUE_ACTIVE_TTL_SECONDS, default=600" min:"5" max:"86400"`
	// ActiveSeenTTL is how long the holder of a slot may be without contact before the slot ends, in
	// seconds.
	ActiveSeenTTL int64 `env:"QUEUE_ACTIVE_SEEN_TTL_SECONDS, default=120" min:"5" max:"86400"`
	// SeenTTL is how long a waiting visitor may be without contact before the cleanup parks the
	// place, in seconds. Use more than 125: visitors far back in the line poll every 60 s.
	SeenTTL int64 `env:"QUEUE_SEEN_TTL_SECONDS, default=600" min:"15" max:"86400"`
	// ParkedTTL is how long a parked place is kept, and how long tickets restore places after a loss
	// of data, in seconds.
	ParkedTTL int64 `env:"QUEUE_PARKED_TTL_SECONDS, default=3600" min:"1" max:"86400"`
	// RecoveryPause is how long a line recovers after Redis lost data, in seconds.
	RecoveryPause int64 `env:"QUEUE_RECOVERY_PAUSE_SECONDS, default=30" min:"1" max:"3600"`
	// AdmissionInterval is the time between two ticks of a replica, in milliseconds; the admission
	// rate does not depend on it.
	AdmissionInterval int64 `env:"QUEUE_ADMISSION_INTERVAL_MS, default=1000" min:"50" max:"5000"`
	// AdmissionBatch is the maximum number of visitors that all replicas together admit to a line
	// per second.
	AdmissionBatch int64 `env:"QUEUE_ADMISSION_BATCH_SIZE, default=100" min:"1" max:"5000"`
	// CleanupInterval is the time between two cleanups of a replica, in milliseconds.
	CleanupInterval int64 `env:"QUEUE_STALE_CLEANUP_INTERVAL_MS, default=30000" min:"100" max:"3600000"`
}

// Validate checks what the tags of the fields cannot express: the forms of the secrets,
// and that SQS has a queue when it is enabled.
func (c *Config) Validate() error {
	var problems []error
	for name, secret := range map[string]config.Secret{"QUEUE_ENTRY_TOKEN_SECRET": c.EntryTokenSecret, "QUEUE_TICKET_SECRET": c.TicketSecret} {
		if _, err := token.ParseKeySet(secret); err != nil {
			problems = append(problems, config.Invalid(name, secret, err.Error()))
		}
	}
	if c.SQS.Enabled && c.SQS.QueueURL == "" {
		problems = append(problems, config.Missing("SQS_QUEUE_URL", "must be the queue's URL when SQS_ENABLED is true"))
	}
	return errors.Join(problems...)
}

// lineRules returns the rules of all lines, with the values that are configured.
func (c *Config) lineRules() line.Rules {
	seconds := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	r := line.DefaultRules()
	r.Threshold, r.Batch = c.Threshold, c.AdmissionBatch
	r.Slot, r.ActiveSeen, r.Seen = seconds(c.ActiveTTL), seconds(c.ActiveSeenTTL), seconds(c.SeenTTL)
	r.Parked, r.Pause = seconds(c.ParkedTTL), seconds(c.RecoveryPause)
	return r
}
