// Package outbox makes a state change and its event one transaction: events are rows inserted in
// the transaction of the change. Relays publish the rows to Kafka and then delete them. Each event
// is delivered at least once; consumers recognise a repeated event by its id (header ce_id).
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

// shardCount is the number of shards that relays of the previous release divide among themselves;
// the table's CHECK has the same number. Both are removed in the next release.
const shardCount = 8

// maxPayload keeps an event far below the broker's message.max.bytes (1 MiB). An event that can
// never be published would block its key.
const maxPayload = 512 << 10

// Event is what happened to one entity.
type Event struct {
	// ID is globally unique; a new one is made for the zero UUID.
	ID uuid.UUID
	// Topic and Key are the destination. Events of one key keep their order.
	Topic, Key string
	// Type is the CloudEvents type, as PAYMENT_CONFIRMED.
	Type string
	// EntityVersion grows with every change of the entity, so that consumers can ignore versions
	// older than the one they know.
	EntityVersion int64
	Payload       proto.Message
}

// Insert writes the events into tx; source is the CloudEvents source, as "payment". They carry
// ctx's trace.
//
// Call it after the entity's row is locked or updated in tx. That lock makes the order of ids
// within a key the order of the commits (see Relay). After the commit call Relay.Signal; without it
// the next poll finds the events.
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
