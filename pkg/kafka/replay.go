package kafka

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Replay reads topics again as a consumer group has read them, without being a member of it.
type Replay struct {
	cfg      Config
	group    string
	verifier *verifier
	refused  int64
}

// NewReplay makes a Replay of what a group has read. It fails without the keys of the services that
// write these topics.
func NewReplay(cfg Config, group string, topics ...string) (*Replay, error) {
	v, err := newVerifier(cfg, topics...)
	return &Replay{cfg: cfg, group: group, verifier: v}, err
}

// CheckComplete fails unless a topic has kept all its records and will keep them: it has unlimited
// retention, and each partition begins at offset 0. A topic that does not exist is complete.
func (r *Replay) CheckComplete(ctx context.Context, topic string) error {
	name := r.cfg.prefixedTopic(topic)
	starts, _, err := r.cfg.offsetBounds(ctx, name)
	if err != nil || len(starts) == 0 {
		return err
	}
	for p, start := range starts {
		if start != 0 {
			return fmt.Errorf("partition %d of topic %s begins at offset %d: earlier records are gone", p, name, start)
		}
	}
	client, err := r.cfg.newClient("replay")
	if err != nil {
		return err
	}
	defer client.Close()
	return checkRetention(ctx, kadm.NewClient(client), name)
}

// Read passes the records of each partition with offsets in [from, to) to handle, in order, as many
// at once as were fetched. It leaves out those that are not signed by the service that writes the
// topic. next is the offset after the last record read, including those left out.
func (r *Replay) Read(
	ctx context.Context, topic string, from, to Offsets, handle func(ctx context.Context, partition int32, recs []Record, next int64) error,
) error {
	at := Offsets{}
	maps.Copy(at, from)
	for {
		unread := Offsets{}
		for p, end := range to {
			if at[p] < end {
				unread[p] = at[p]
			}
		}
		if len(unread) == 0 {
			return nil
		}
		byPartition, err := r.cfg.readRange(ctx, r.cfg.prefixedTopic(topic), unread, to, maxPageBytes)
		if err != nil {
			return err
		}
		for p, recs := range byPartition {
			at[p] = recs[len(recs)-1].Offset + 1
			if err := handle(ctx, p, r.genuine(topic, recs), at[p]); err != nil {
				return err
			}
		}
	}
}

// Refused returns how many records were left out so far, since they are not signed.
func (r *Replay) Refused() int64 { return r.refused }

// ReadAll passes all records of a topic that are signed by the service that writes it to handle, in the
// order of their partitions. From since on, no partition has forgotten records; zero: none has.
func (r *Replay) ReadAll(ctx context.Context, topic string, handle func(recs []Record)) (since time.Time, err error) {
	starts, ends, err := r.cfg.offsetBounds(ctx, r.cfg.prefixedTopic(topic))
	if err != nil {
		return since, err
	}
	begun := map[int32]bool{}
	err = r.Read(ctx, topic, starts, ends, func(_ context.Context, partition int32, recs []Record, _ int64) error {
		if len(recs) > 0 && !begun[partition] {
			begun[partition] = true
			if starts[partition] > 0 && recs[0].Time.After(since) {
				since = recs[0].Time
			}
		}
		handle(recs)
		return nil
	})
	return since, err
}

// genuine leaves out the records that are refused, and sets the topics.
func (r *Replay) genuine(readFrom string, recs []Record) []Record {
	kept := recs[:0]
	for _, rec := range recs {
		stored := rec.toKgo()
		rec.Topic, rec.ReadFrom = r.cfg.topicOf(stored, readFrom, r.group), readFrom
		if r.verifier.verify(rec.Topic, stored) == nil {
			kept = append(kept, rec)
		} else {
			r.refused++
		}
	}
	return kept
}
