// Package outbox makes a state change and its event one transaction: events are rows written beside
// the change, which relays publish to Kafka and then delete. Each is delivered at least once;
// consumers know repetitions by the event's id (header ce_id).
package outbox

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/wire"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the table outbox.
var Migrations = postgres.MigrationSet{Name: "outbox", FS: files}

// shardCount is the number of parts that relays of the previous release share out among themselves;
// the table's CHECK knows it too. Both go in the next release.
const shardCount = 8

// maxPayload keeps an event far below the broker's message.max.bytes (1 MiB): one that could never
// be published would hold up its key.
const maxPayload = 512 << 10

// Event is what happened to one entity.
type Event struct {
	// ID is unique for good; the zero UUID becomes a new one.
	ID uuid.UUID
	// Topic and Key say where it goes; events of one key keep their order.
	Topic, Key string
	// Type is the CloudEvents type, as PAYMENT_CONFIRMED.
	Type string
	// EntityVersion grows with every change of the entity, so that consumers can ignore what is
	// older than what they know.
	EntityVersion int64
	Payload       proto.Message
}

// Insert writes the events into tx; source is the CloudEvents source, as "payment". They carry
// ctx's trace.
//
// Call it after the entity's row is locked or updated in tx: that, not the relay, is what makes the
// order of ids within a key the order of the commits (see Relay). Call Relay.Signal after the
// commit, or the next poll finds them.
func Insert(ctx context.Context, tx pgx.Tx, source string, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	now := time.Now()
	var (
		ids, topics, keys, types, payloads, headers = column[uuid.UUID](events), column[string](events), column[string](events),
			column[string](events), column[string](events), column[string](events)
		shards, hashes, versions = column[int16](events), column[int32](events), column[int64](events)
	)
	for i, e := range events {
		if e.ID == uuid.Nil {
			e.ID = uuid.Must(uuid.NewV7())
		}
		payload, err := wire.Marshal(e.Payload)
		if err != nil {
			return fmt.Errorf("outbox event %s: %w", e.Type, err)
		}
		if len(payload) > maxPayload {
			return fmt.Errorf("outbox event %s has %d bytes, more than %d", e.Type, len(payload), maxPayload)
		}
		h, err := json.Marshal(headersOf(ctx, source, e, now))
		if err != nil {
			return fmt.Errorf("outbox event %s: %w", e.Type, err)
		}
		ids[i], topics[i], keys[i], types[i] = e.ID, e.Topic, e.Key, e.Type
		payloads[i], headers[i], versions[i] = string(payload), string(h), e.EntityVersion
		shards[i], hashes[i] = shardOf(e.Key), kafka.KeyHash([]byte(e.Key))
	}
	// WITH ORDINALITY keeps the ids in the order of the arguments.
	_, err := tx.Exec(ctx, `
		INSERT INTO outbox (event_id, shard, topic, key, key_hash, type, entity_version, payload, headers)
		SELECT event_id, shard, topic, key, key_hash, type, entity_version, payload, headers::jsonb
		FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::text[], $5::int[], $6::text[], $7::bigint[], $8::text[], $9::text[])
			WITH ORDINALITY AS e (event_id, shard, topic, key, key_hash, type, entity_version, payload, headers, n)
		ORDER BY n`,
		ids, shards, topics, keys, hashes, types, versions, payloads, headers)
	if err != nil {
		return fmt.Errorf("insert %d outbox events: %w", len(events), err)
	}
	return nil
}

func column[T any](events []Event) []T { return make([]T, len(events)) }

func headersOf(ctx context.Context, source string, e Event, at time.Time) map[string]string {
	h := kafka.EventHeaders(e.ID, source, e.Type, at)
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(h))
	return h
}

func shardOf(key string) int16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int16(h.Sum32() % shardCount) //nolint:gosec // below 8
}
