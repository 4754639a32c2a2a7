package announce_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/worker/internal/announce"
	"urr.guru/services/worker/internal/dynamo"
	workerkafka "urr.guru/services/worker/internal/kafka"
)

// broker is a Kafka that keeps what is published, and may fail.
type broker struct {
	mu   sync.Mutex
	err  error
	rows []promotion.Announcement
}

func (b *broker) Publish(_ context.Context, rows []promotion.Announcement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.rows = append(b.rows, rows...)
	}
	return b.err
}

func (b *broker) published() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rows)
}

func (b *broker) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

type environment struct {
	store table.Store
	open  func() *dynamo.Store
}

func newEnvironment(t *testing.T) environment {
	t.Helper()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	return environment{
		store: table.NewStore(pkgdynamo.Leases{Client: db, Table: tables.Table(table.TableName), Owner: ids.NewV7().String(), Now: time.Now}),
		open:  func() *dynamo.Store { return dynamo.New(db, tables, time.Now, func(int) {}) },
	}
}

func request(status promotion.Status, code promotion.ResultCode) promotion.Request {
	return promotion.Request{
		RequestID: ids.NewV7().String(), EventID: "demo", UserID: "ann", EventType: promotion.FirstCome, Status: status, ResultCode: code,
		StatusAt: 1_800_000_000_123, QueueSeq: promotion.Turn{SequenceNumber: "7"}.QueueSeq(),
	}
}

// commit writes announcements as the worker service does, and returns their partition.
func (w environment) commit(t *testing.T, requests ...promotion.Request) int {
	t.Helper()
	var rows []promotion.Announcement
	for i := range requests {
		rows = append(rows, promotion.AnnouncementOf(&requests[i]))
	}
	it, partition := table.NewOutbox(w.store.Millis(), rows)
	tx := w.store.Begin()
	tx.Put(0, it, table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	return partition
}

func TestPassPublishesEverythingOnce(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	const transactions = 20
	began := time.UnixMilli(w.store.Millis())
	for range transactions {
		w.commit(t, request(promotion.Succeeded, promotion.Success), request(promotion.Rejected, promotion.RejectedCapacity))
	}
	b := &broker{}
	relay := announce.New(w.open(), b, slog.New(slog.DiscardHandler))
	b.fail(errors.New("away"))
	require.Zero(t, relay.Oldest())
	require.Error(t, relay.Pass(t.Context()))
	require.Zero(t, b.published())
	require.WithinRange(t, relay.Oldest(), began, time.UnixMilli(w.store.Millis()))
	b.fail(nil)
	require.NoError(t, relay.Pass(t.Context()))
	require.Equal(t, 2*transactions, b.published())
	require.NoError(t, relay.Pass(t.Context()))
	require.Equal(t, 2*transactions, b.published())
	require.Zero(t, relay.Oldest(), "nothing is left")
	w.commit(t, request(promotion.Succeeded, promotion.Success))
	other := announce.New(w.open(), b, slog.New(slog.DiscardHandler))
	require.NoError(t, other.Pass(t.Context()))
	require.Equal(t, 2*transactions, b.published(), "the first replica has the partitions")
}

// An unreadable item is kept for operators, and the items behind it are published.
func TestUnreadableAnnouncement(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	it, partition := table.NewOutbox(1_800_000_000_000, nil)
	it["rows"] = pkgdynamo.String("{")
	behind, _ := table.NewOutbox(1_800_000_000_001, []promotion.Announcement{{ID: ids.NewV7(), RequestID: "r"}})
	behind[table.PK] = it[table.PK]
	tx := w.store.Begin()
	tx.Put(0, it, table.Condition{})
	tx.Put(0, behind, table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	b, store := &broker{}, w.open()
	require.NoError(t, announce.New(store, b, slog.New(slog.DiscardHandler)).Pass(t.Context()))
	require.Equal(t, 1, b.published())
	remaining, _, err := store.Announcements(t.Context(), partition)
	require.NoError(t, err)
	require.Empty(t, remaining)
	letters, _, err := store.DeadLetters(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "{", letters[0].Body)

	// Once the defect is mended an operator publishes them.
	require.ErrorIs(t, store.RedriveAnnouncement(t.Context(), letters[0]), promotion.ErrNotRedrivable)
	mended := letters[0]
	mended.Body = (&pkgdynamo.Reader{Item: behind}).String("rows")
	require.NoError(t, store.RedriveAnnouncement(t.Context(), mended))
	require.ErrorIs(t, store.RedriveAnnouncement(t.Context(), mended), promotion.ErrNotRedrivable, "once")
	require.NoError(t, announce.New(store, b, slog.New(slog.DiscardHandler)).Pass(t.Context()))
	require.Equal(t, 2, b.published())
}

// The announcements of a process are published without waiting for a pass, also when it stops.
func TestHintedPartitionsArePublished(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	b := &broker{}
	first, second := w.open(), w.open()
	for slice := range 8 { // another replica has all leases
		_, err := first.AcquireLease(t.Context(), "announce-"+string(rune('0'+slice)))
		require.NoError(t, err)
	}
	relay := announce.New(second, b, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	relay.Hint(w.commit(t, request(promotion.Succeeded, promotion.Success)))
	testkit.Until(t, func() bool { return b.published() == 1 }, "published")
	relay.Hint(w.commit(t, request(promotion.Succeeded, promotion.Success)))
	stop()
	require.NoError(t, <-done)
	require.Equal(t, 2, b.published())
}

func TestRecordsOnKafka(t *testing.T) {
	t.Parallel()
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix = kafkatest.Name("worker") + "-"
	topic := cfg.TopicPrefix + events.Requests
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: events.Requests}))
	t.Cleanup(func() { kafkatest.Delete(t, topic, topic+kafka.DLQSuffix) })
	producer := kafkatest.ProducerOf(t, cfg)
	won, failed := request(promotion.Succeeded, promotion.Success), request(promotion.FailedFinal, promotion.FailedWorker)
	rows := []promotion.Announcement{promotion.AnnouncementOf(&won), promotion.AnnouncementOf(&failed)}
	require.NoError(t, workerkafka.New(producer).Publish(t.Context(), rows))
	byID := map[string]kafka.Record{}
	for _, rec := range kafkatest.Read(t, topic, 2) {
		byID[rec.EventID] = rec
	}
	rec := byID[rows[0].ID.String()]
	require.Equal(t, won.RequestID, string(rec.Key))
	require.Equal(t, events.RequestSucceeded, rec.Type)
	var got eventsv1.RequestEvent
	require.NoError(t, kafka.Decode(rec, &got))
	require.Equal(t, "SUCCESS", got.GetResultCode())
	require.Equal(t, int64(1_800_000_000_123), got.GetVersion())
	require.Equal(t, won.QueueSeq, got.GetQueueSeq())
	require.Equal(t, time.UnixMilli(1_800_000_000_123).UTC(), got.GetOccurredAt().AsTime())
	require.Equal(t, events.RequestFailed, byID[rows[1].ID.String()].Type)
}
