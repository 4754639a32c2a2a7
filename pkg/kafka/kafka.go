// Package kafka publishes and consumes domain events: idempotent producers that wait for all
// in-sync replicas and sign what they publish, consumers that check the signatures and mark records
// after processing them, dead-letter topics that keep the original bytes, CloudEvents headers and W3C
// trace context.
package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"urr.guru/pkg/config"
	"urr.guru/proto/events"
)

// DLQSuffix is appended to a topic's name to make the name of its dead-letter topic.
const DLQSuffix = ".dlq"

// metadataMinAge is the shortest interval between two metadata requests. With the library's default
// of 5 s, a call after a leader has moved, or a topic was created, would mostly wait.
const metadataMinAge = 250 * time.Millisecond

// Config selects the cluster and the authentication.
type Config struct {
	// Brokers are host:port; some of the cluster's brokers are enough.
	Brokers []string `env:"KAFKA_BROKERS, required"`
	// ReplicationFactor is the number of replicas of new topics.
	ReplicationFactor int16 `env:"KAFKA_REPLICATION_FACTOR, default=1" min:"1" max:"10"`
	// TLS encrypts the connections; it is implied by SASL.
	TLS bool `env:"KAFKA_TLS"`
	// SASL is the mechanism: Username and Password, or the pod's AWS role; empty: none.
	SASL string `env:"KAFKA_SASL" oneof:"SCRAM-SHA-512 AWS_MSK_IAM"`
	// Plain must be set to allow brokers without SASL: they know nobody, and refuse nobody.
	Plain string `env:"KAFKA_PLAIN" oneof:"development"`
	// Username is used with SCRAM-SHA-512.
	Username string `env:"KAFKA_USERNAME"`
	// Password is used with SCRAM-SHA-512.
	Password config.Secret `env:"KAFKA_PASSWORD"`
	// PasswordFile is the file that Password was read from, if any. New connections use its current
	// content.
	PasswordFile string `env:"KAFKA_PASSWORD_FILE"`
	// SigningKey signs the records that the service publishes: the PEM block of an Ed25519 key (PKCS #8).
	SigningKey config.Secret `env:"EVENT_SIGNING_KEY"`
	// SigningKeyFile is the file that SigningKey was read from, if any. Its current content signs.
	SigningKeyFile string `env:"EVENT_SIGNING_KEY_FILE"`
	// PublicKeys are, by service, the keys with which it signs or has signed: PEM blocks of public keys
	// or certificates. A consumer refuses records that the service that writes the topic has not signed.
	PublicKeys map[string]config.Secret `env:"EVENT_PUBLIC_KEYS"`
	// PublicKeysFile is the folder (a file for each service), or the file, that PublicKeys was read from,
	// if any. Its current content counts.
	PublicKeysFile string `env:"EVENT_PUBLIC_KEYS_FILE"`
	// Writer returns the service that writes a topic, "" for an unknown topic; nil: events.Writer.
	Writer func(topic string) string
	// TopicPrefix is the prefix of every topic name on the brokers, so that several installations
	// may share them. Code, handlers and metrics use the names without it.
	TopicPrefix string `env:"KAFKA_TOPIC_PREFIX"`
	// GroupPrefix is the prefix of every consumer group name, for the same reason.
	GroupPrefix string `env:"KAFKA_GROUP_PREFIX"`
}

func (c Config) prefixedTopic(name string) string  { return c.TopicPrefix + name }
func (c Config) withoutPrefix(topic string) string { return strings.TrimPrefix(topic, c.TopicPrefix) }
func (c Config) writerOf(topic string) string {
	if c.Writer != nil {
		return c.Writer(topic)
	}
	return events.Writer(topic)
}

func (c Config) prefixedGroup(name string) string { return c.GroupPrefix + name }

// options returns the options that all clients share. Requests fail soon when a broker does not
// answer, since callers have short deadlines too.
func (c Config) options(name string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(name),
		kgo.DialTimeout(3 * time.Second),
		kgo.RetryTimeout(10 * time.Second),
		kgo.MetadataMinAge(metadataMinAge),
	}
	if c.TLS || c.SASL != "" {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	switch c.SASL {
	case "":
		if c.Plain == "" {
			return nil, config.Missing("KAFKA_SASL", "must be SCRAM-SHA-512 or AWS_MSK_IAM; KAFKA_PLAIN=development allows brokers that know nobody")
		}
	case "SCRAM-SHA-512":
		if c.Username == "" || c.Password == "" {
			return nil, config.Missing("KAFKA_USERNAME, KAFKA_PASSWORD", "both are needed with KAFKA_SASL=SCRAM-SHA-512")
		}
		opts = append(opts, kgo.SASL(scram.Sha512(c.passwordCredentials())))
	case "AWS_MSK_IAM":
		opts = append(opts, kgo.SASL(aws.ManagedStreamingIAM(roleCredentials)))
	default:
		return nil, config.Invalid("KAFKA_SASL", c.SASL, "must be empty, SCRAM-SHA-512 or AWS_MSK_IAM")
	}
	return opts, nil
}

func (c Config) passwordCredentials() func(context.Context) (scram.Auth, error) {
	password := config.LatestSecret("KAFKA_PASSWORD", c.PasswordFile, c.Password)
	return func(context.Context) (scram.Auth, error) {
		return scram.Auth{User: c.Username, Pass: password().Reveal()}, nil
	}
}

// newClient makes a client of the Kafka library. It connects at first use.
func (c Config) newClient(name string, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options(name)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client %s: %w", name, err)
	}
	return client, nil
}

// roleCredentials reads the process's AWS credentials anew at each sign-in, since those of a role
// are short-lived.
func roleCredentials(ctx context.Context) (aws.Auth, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("aws credentials: %w", err)
	}
	cr, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("aws credentials: %w", err)
	}
	return aws.Auth{AccessKey: cr.AccessKeyID, SecretKey: cr.SecretAccessKey, SessionToken: cr.SessionToken}, nil
}
