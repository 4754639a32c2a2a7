// Package outbox makes a state change and its Kafka event one transaction: the event is inserted as
// a row in the transaction of the change. Relays publish the rows to Kafka and then delete them.
// Events are delivered at least once; consumers recognise a second delivery by the header ce_id.
package outbox

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
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

// maxPayload is the largest size of an event, far below the broker's message.max.bytes (1 MiB). An
// event that can never be published would block all later events of its key.
const maxPayload = 512 << 10

// Event says what happened to one entity, such as a payment.
type Event struct {
	ID         uuid.UUID // globally unique; a new one is made for the zero UUID
	Topic, Key string    // the destination; events of one key keep their order
	Type       string    // the CloudEvents type, such as PAYMENT_CONFIRMED
	// EntityVersion grows with every change of the entity, so that consumers can ignore versions
	// older than the one they know.
	EntityVersion int64
	Payload       proto.Message
}

// Insert writes events into the outbox in tx. source is the CloudEvents source, such as "payment".
// The events carry the trace of ctx.
//
// Call it after the entity's row is locked or updated in tx: that lock makes the order of ids
// within a key the order of the commits (see Relay). After the commit call Relay.Signal; without it
// the events wait for the relay's next poll.
func Insert(ctx context.Context, tx postgres.Execer, source string, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	now := time.Now()
	rows := make([]insertRow, len(events))
	for i, e := range events {
		var err error
		if rows[i], err = newInsertRow(ctx, source, e, now); err != nil {
			return err
		}
	}
	sql, args := insertOne, rows[0].columns()
	if len(rows) > 1 {
		sql, args = insertMany, columnArrays(rows)
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("insert %d outbox events: %w", len(events), err)
	}
	return nil
}

const (
	insertOne = `
		INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	// WITH ORDINALITY inserts the rows in the order of the arguments, which is then the order of the
	// ids that the table generates.
	insertMany = `
		INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
		SELECT event_id, topic, key, key_hash, type, entity_version, payload, headers::jsonb
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::text[], $6::bigint[], $7::text[], $8::text[])
			WITH ORDINALITY AS e (event_id, topic, key, key_hash, type, entity_version, payload, headers, n)
		ORDER BY n`
)

// insertRow has the columns of an event that is to be inserted into the table outbox.
type insertRow struct {
	id               uuid.UUID
	topic, key       string
	keyHash          int32
	kind             string
	version          int64
	payload, headers string
}

func (r *insertRow) columns() []any {
	return []any{r.id, r.topic, r.key, r.keyHash, r.kind, r.version, r.payload, r.headers}
}

func newInsertRow(ctx context.Context, source string, e Event, now time.Time) (insertRow, error) {
	if e.ID == uuid.Nil {
		e.ID = uuid.Must(uuid.NewV7())
	}
	payload, err := wire.Marshal(e.Payload)
	if err != nil {
		return insertRow{}, fmt.Errorf("outbox event %s: %w", e.Type, err)
	}
	if len(payload) > maxPayload {
		return insertRow{}, fmt.Errorf("outbox event %s has %d bytes, more than %d", e.Type, len(payload), maxPayload)
	}
	headers := kafka.EventHeaders(e.ID, source, e.Type, now)
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
	h, err := json.Marshal(headers)
	if err != nil {
		return insertRow{}, fmt.Errorf("outbox event %s: %w", e.Type, err)
	}
	return insertRow{
		id: e.ID, topic: e.Topic, key: e.Key, keyHash: kafka.KeyHash([]byte(e.Key)), kind: e.Type, version: e.EntityVersion,
		payload: string(payload), headers: string(h),
	}, nil
}

func columnArrays(rows []insertRow) []any {
	return []any{
		columnArray(rows, func(r insertRow) uuid.UUID { return r.id }), columnArray(rows, func(r insertRow) string { return r.topic }),
		columnArray(rows, func(r insertRow) string { return r.key }), columnArray(rows, func(r insertRow) int32 { return r.keyHash }),
		columnArray(rows, func(r insertRow) string { return r.kind }), columnArray(rows, func(r insertRow) int64 { return r.version }),
		columnArray(rows, func(r insertRow) string { return r.payload }), columnArray(rows, func(r insertRow) string { return r.headers }),
	}
}

func columnArray[T any](rows []insertRow, column func(insertRow) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = column(r)
	}
	return values
}
