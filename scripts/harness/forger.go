package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
)

// Forger may write to Kafka, as a captured process could, but has no service's key.
type Forger struct {
	p      *Platform
	client *kgo.Client
	wrote  sync.Map // ids of the records
}

func (p *Platform) Forger() *Forger {
	p.tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.Brokers()...))
	if err != nil {
		p.tb.Fatal("harness: ", err)
	}
	p.tb.Cleanup(client.Close)
	return &Forger{p: p, client: client}
}

// Write publishes a record as the service that writes the topic does, but for the signature.
func (f *Forger) Write(ctx context.Context, topic, key string, payload map[string]any) error {
	value, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("forge a record: %w", err)
	}
	kind, _ := payload["type"].(string)
	r := &kgo.Record{Key: []byte(key), Value: value}
	for name, text := range kafka.EventHeaders(uuid.New(), events.Writer(topic), kind, time.Now()) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(text)})
	}
	return f.publish(ctx, topic, r)
}

// Copy publishes a record of a topic again, with its signature, but under another id.
func (f *Forger) Copy(ctx context.Context, topic string, r *kgo.Record) error {
	again := &kgo.Record{Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
	for i, h := range again.Headers {
		if h.Key == kafka.HeaderID {
			again.Headers[i].Value = []byte(uuid.NewString())
		}
	}
	return f.publish(ctx, topic, again)
}

// publish writes a record to the topic, and to its consumers' topics of redriven letters.
func (f *Forger) publish(ctx context.Context, topic string, r *kgo.Record) error {
	f.wrote.Store(kafka.FromKgo(r).EventID, true)
	prefix := f.p.Wiring().KafkaPrefix
	r.Topic = prefix + topic
	records := []*kgo.Record{r}
	for _, service := range events.Consumers(topic) {
		letter := &kgo.Record{Topic: prefix + kafka.RedriveTopic(events.Group(service)), Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: kafka.HeaderOrigin, Value: []byte(r.Topic + "/0/0")})
		records = append(records, letter)
	}
	return f.client.ProduceSync(ctx, records...).FirstErr()
}

// Wrote reports whether the record with this id is a forged one.
func (f *Forger) Wrote(id string) bool {
	_, wrote := f.wrote.Load(id)
	return wrote
}

// Refused returns how many records of a topic a replica of a service has refused since it started.
func (f *Forger) Refused(ctx context.Context, service string, replica int, topic string) (float64, error) {
	start := fmt.Sprintf("urr_records_refused_total{group=%q,topic=%q", events.Group(service), topic)
	return f.p.Service(service).Metric(ctx, replica, start)
}
