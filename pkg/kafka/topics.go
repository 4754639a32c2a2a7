package kafka

import (
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

// Topic is what EnsureTopics makes.
type Topic struct {
	Name string
	// Partitions; 0 = 3.
	Partitions int32
}

// EnsureTopics creates the topics that do not exist, each with its dead-letter topic, all kept
// forever, and waits until the brokers know them. It may be called by any number of processes at
// once. A topic that exists with another number of partitions is an error: adding some would move
// keys to other partitions and break their order, so that is a decision for a person.
func EnsureTopics(ctx context.Context, cfg Config, topics ...Topic) error {
	client, err := cfg.newClient("ensure-topics", kgo.MetadataMinAge(describeEvery))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, t := range topics {
		t.Name = cfg.topic(t.Name)
		if t.Partitions == 0 {
			t.Partitions = defaultPartitions
		}
		if err := ensureTopic(ctx, admin, cfg, t); err != nil {
			return err
		}
		if err := ensureTopic(ctx, admin, cfg, Topic{Name: t.Name + DLQSuffix, Partitions: t.Partitions}); err != nil {
			return err
		}
	}
	return nil
}

func ensureTopic(ctx context.Context, admin *kadm.Client, cfg Config, t Topic) error {
	err := settled(ctx, func() error { return createTopic(ctx, admin, cfg, t) })
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		var known *kerr.Error
		if errors.As(err, &known) {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
		return errs.ErrUnavailable.Wrap(fmt.Errorf("create topic %s: %w", t.Name, err))
	}
	return checkTopic(ctx, admin, t)
}

func createTopic(ctx context.Context, admin *kadm.Client, cfg Config, t Topic) error {
	forever := "-1" // so that figures can be rebuilt from offset 0
	// With three replicas one may be away for maintenance; acks=all then still means two copies.
	insync := strconv.Itoa(max(1, int(cfg.ReplicationFactor)-1))
	_, err := admin.CreateTopic(ctx, t.Partitions, cfg.ReplicationFactor, map[string]*string{
		"retention.ms": &forever, "min.insync.replicas": &insync,
	}, t.Name)
	return err //nolint:wrapcheck // by ensureTopic
}

func checkTopic(ctx context.Context, admin *kadm.Client, t Topic) error {
	n, err := partitions(ctx, admin, t.Name)
	if err != nil {
		return err
	}
	if n != int(t.Partitions) {
		return fmt.Errorf("topic %s has %d partitions, not %d: keys would change partitions, so it is left alone", t.Name, n, t.Partitions)
	}
	return nil
}

const (
	// describeEvery is the pause between two questions for a topic, and the age up to which the
	// client itself remembers the answer.
	describeEvery = 50 * time.Millisecond
	// settleWithin is how long the brokers are given to agree: one that was stalled or restarted
	// counts as absent until it is back.
	settleWithin = 30 * time.Second
)

// partitions counts them. A topic that has just been made exists for the controller, which refuses
// a second one, before the brokers can describe it.
func partitions(ctx context.Context, admin *kadm.Client, topic string) (n int, err error) {
	err = settled(ctx, func() error {
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

// settled repeats what the brokers refuse while they have not agreed yet, for settleWithin.
func settled(ctx context.Context, attempt func() error) error {
	for deadline := time.Now().Add(settleWithin); ; {
		err := attempt()
		if err == nil || !unsettled(err) || time.Now().After(deadline) {
			return err
		}
		if !loop.Sleep(ctx, describeEvery) {
			return err
		}
	}
}

// unsettled tells whether the brokers' answer may be another one in a moment. Too few brokers for
// the wanted replicas are either absent for a while or never were there.
func unsettled(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.LeaderNotAvailable) ||
		errors.Is(err, kerr.NotController) || errors.Is(err, kerr.InvalidReplicationFactor)
}
