package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
)

const defaultPartitions = 3

// Topic describes a topic for EnsureTopics.
type Topic struct {
	Name       string
	Partitions int32 // 0 means 3
	// MayForget permits a limited retention: operators may set one to have personal data deleted.
	MayForget bool
	// WithoutDLQ is for a topic whose records have dead letters elsewhere.
	WithoutDLQ bool
}

// TopicOfRedriven describes the topic of a group's redriven letters.
func TopicOfRedriven(group string) Topic { return Topic{Name: RedriveTopic(group), WithoutDLQ: true} }

// EnsureTopics creates missing topics, with their dead-letter topics, with unlimited retention,
// and waits until the brokers know them. Any number of processes may call it concurrently. An
// existing topic stays as it is: an operator may have added partitions or changed the replication
// factor. EnsureTopics fails for a topic with fewer partitions than wanted: adding the missing ones
// would move keys and break their order, so an operator must decide. It also fails for a topic that
// deletes records, such as one that another tool made with its defaults: services that count
// figures again from its records would get too small ones.
func EnsureTopics(ctx context.Context, cfg Config, topics ...Topic) error {
	client, err := cfg.newClient("ensure-topics", kgo.MetadataMinAge(describeEvery))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, t := range topics {
		suffixes := []string{"", DLQSuffix}
		if t.WithoutDLQ {
			suffixes = suffixes[:1]
		}
		for _, suffix := range suffixes {
			topic := Topic{Name: cfg.prefixedTopic(t.Name) + suffix, Partitions: cmp.Or(t.Partitions, defaultPartitions), MayForget: t.MayForget}
			if err := ensureTopic(ctx, admin, cfg, topic); err != nil {
				return err
			}
		}
	}
	return nil
}

func ensureTopic(ctx context.Context, admin *kadm.Client, cfg Config, t Topic) error {
	err := retryUntilAgreed(ctx, func() error { return createTopic(ctx, admin, cfg, t) })
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		var brokerErr *kerr.Error
		if errors.As(err, &brokerErr) {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
		return errs.ErrUnavailable.Wrap(fmt.Errorf("create topic %s: %w", t.Name, err))
	}
	return checkTopic(ctx, admin, t)
}

func createTopic(ctx context.Context, admin *kadm.Client, cfg Config, t Topic) error {
	forever := "-1" // statistics can be counted anew from offset 0
	// Of three replicas one may be down for maintenance; acks then still mean two copies.
	insync := strconv.Itoa(max(1, int(cfg.ReplicationFactor)-1))
	_, err := admin.CreateTopic(ctx, t.Partitions, cfg.ReplicationFactor, map[string]*string{
		"retention.ms": &forever, "min.insync.replicas": &insync,
	}, t.Name)
	return err //nolint:wrapcheck // by ensureTopic
}

func checkTopic(ctx context.Context, admin *kadm.Client, t Topic) error {
	n, err := countPartitions(ctx, admin, t.Name)
	if err != nil {
		return err
	}
	if n < int(t.Partitions) {
		return fmt.Errorf("topic %s has %d partitions, not %d: keys would change partitions, so it is left alone", t.Name, n, t.Partitions)
	}
	if t.MayForget {
		return nil
	}
	return checkRetention(ctx, admin, t.Name)
}

// unlimitedRetention has the settings of a topic that keeps every record.
//
//nolint:gochecknoglobals // a constant table
var unlimitedRetention = map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}

// checkRetention fails if a topic is set to delete records.
func checkRetention(ctx context.Context, admin *kadm.Client, topic string) error {
	var settings []kadm.Config
	err := retryUntilAgreed(ctx, func() error {
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err //nolint:wrapcheck // below
		}
		found, err := described.On(topic, nil)
		settings = found.Configs
		return errors.Join(err, found.Err)
	})
	if err != nil {
		return fmt.Errorf("settings of topic %s: %w", topic, err)
	}
	for _, c := range settings {
		if want, checked := unlimitedRetention[c.Key]; checked && c.MaybeValue() != want {
			return fmt.Errorf("topic %s has %s=%s, not %s: it would delete records, from which figures are counted anew", topic, c.Key, c.MaybeValue(), want)
		}
	}
	return nil
}

const (
	// describeEvery is the interval at which a topic is described, and the longest time for which
	// the client caches the answer.
	describeEvery = 50 * time.Millisecond
	// agreeWithin is the longest wait until the brokers agree about a topic. It is long, since a
	// broker that was stalled or restarted counts as absent until it is back.
	agreeWithin = 30 * time.Second
)

// countPartitions returns how many partitions a topic has. It waits until the brokers can describe
// a topic that was just created.
func countPartitions(ctx context.Context, admin *kadm.Client, topic string) (n int, err error) {
	err = retryUntilAgreed(ctx, func() error {
		details, err := admin.ListTopics(ctx, topic)
		if err == nil {
			err = details[topic].Err
		}
		n = len(details[topic].Partitions)
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return 0, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	return n, nil
}

// retryUntilAgreed repeats an attempt while it fails because the brokers disagree about a topic,
// for at most agreeWithin.
func retryUntilAgreed(ctx context.Context, attempt func() error) error {
	for deadline := time.Now().Add(agreeWithin); ; {
		err := attempt()
		if err == nil || !brokersDisagree(err) || time.Now().After(deadline) {
			return err
		}
		if !loop.Sleep(ctx, describeEvery) {
			return err
		}
	}
}

// brokersDisagree reports errors that may disappear when the brokers agree about a topic.
// InvalidReplicationFactor is one of them: a broker may only be absent for a moment.
func brokersDisagree(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.LeaderNotAvailable) ||
		errors.Is(err, kerr.NotController) || errors.Is(err, kerr.InvalidReplicationFactor)
}
