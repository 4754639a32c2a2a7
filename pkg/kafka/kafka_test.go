package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// Services that share topics are migrated concurrently: the broker refuses a topic that is being
// created before it can describe it.
func TestEnsureTopicsConcurrently(t *testing.T) {
	t.Parallel()
	cfg := kafkatest.Config(t)
	const services, topics = 4, 5
	var wanted []kafka.Topic
	for range topics {
		name := kafkatest.Name("topic")
		wanted = append(wanted, kafka.Topic{Name: name})
		t.Cleanup(func() { kafkatest.Delete(t, name, name+kafka.DLQSuffix) })
	}
	results := make(chan error, services)
	for range services {
		go func() { results <- kafka.EnsureTopics(t.Context(), cfg, wanted...) }()
	}
	for range services {
		require.NoError(t, <-results)
	}
}

func TestEnsureTopicsIsRepeatable(t *testing.T) {
	t.Parallel()
	topic := kafkatest.Topic(t)
	cfg := kafkatest.Config(t)
	results := make(chan error, 3)
	for range cap(results) {
		go func() { results <- kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic}) }()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
	err := kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic, Partitions: 6})
	require.ErrorContains(t, err, "has 3 partitions, not 6")
}

// A migration must not stop because an operator enlarged a topic. More replicas than there are
// brokers would be refused at once if the topic were created or compared.
func TestEnsureTopicsAcceptsEnlargedTopics(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 5)
	cfg := kafkatest.Config(t)
	cfg.ReplicationFactor = 99
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic, Partitions: 4}))
}

// While a broker restarts or is silent, the controller counts it as absent.
func TestEnsureTopicsWaitsForAbsentBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(kafka.AgreeWithin - time.Second)
		require.NoError(t, kafka.RetryUntilAgreed(t.Context(), func() error {
			if time.Now().Before(back) {
				return fmt.Errorf("create: %w", kerr.InvalidReplicationFactor)
			}
			return nil
		}), "it comes back")

		refuse := func(err error) (waited time.Duration) {
			began := time.Now()
			require.ErrorIs(t, kafka.RetryUntilAgreed(t.Context(), func() error { return err }), err)
			return time.Since(began)
		}
		require.GreaterOrEqual(t, refuse(kerr.InvalidReplicationFactor), kafka.AgreeWithin, "it never was there")
		require.Zero(t, refuse(kerr.TopicAuthorizationFailed), "what will not change")
	})
}

func TestPublishToMissingTopicFails(t *testing.T) {
	t.Parallel()
	p := producer(t, kafkatest.Config(t), kgo.MetadataMinAge(kafka.MinMetadataAge))
	kafka.WithTimeout(time.Hour)(p)
	err := p.Publish(t.Context(), kafka.Record{Topic: kafkatest.Name("missing"), Value: []byte("x")})
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
}

// The age of an event in the outbox does not prevent its publishing.
func TestPublishSendsOldEvents(t *testing.T) {
	t.Parallel()
	topic := kafkatest.Topic(t)
	then := time.Date(2020, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("x"), Time: then}))
	require.True(t, then.Equal(kafkatest.Read(t, topic, 1)[0].Time))
}

// A call ends at the caller's deadline; without one, at the delivery timeout.
func TestPublishFailsFastWithoutBroker(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ deadline, limit time.Duration }{
		"own deadline": {time.Second, time.Second},
		"none":         {time.Hour, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := producer(t, kafkatest.WithKeys(kafka.Config{Brokers: []string{"127.0.0.1:1"}}), kgo.Dialer(refuse))
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, p.Publish(ctx, kafka.Record{Topic: "x", Value: []byte("x")}), errs.ErrUnavailable)
				require.LessOrEqual(t, time.Since(begun), tc.limit)
			})
		})
	}
}

func refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

// producer makes a producer that is closed when the test ends, without waiting for records in
// flight.
func producer(t *testing.T, cfg kafka.Config, opts ...kgo.Opt) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProducerWith(cfg, opts...)
	require.NoError(t, err, "the start does not depend on Kafka")
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx)
	})
	return p
}

// freezer makes the connections of a client discard what is written while frozen is set, so no
// answer comes back either. A connection that has discarded something stays broken.
type freezer struct {
	frozen    atomic.Bool
	swallowed chan struct{} // receives when something was discarded
}

func (i *freezer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &freezableConn{Conn: conn, freezer: i}, err
}

type freezableConn struct {
	net.Conn

	freezer *freezer
	lost    atomic.Bool
}

func (c *freezableConn) Write(b []byte) (int, error) {
	if c.freezer.frozen.Load() {
		c.lost.Store(true)
		select {
		case c.freezer.swallowed <- struct{}{}:
		default:
		}
		return len(b), nil
	}
	if c.lost.Load() {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return c.Conn.Write(b)
}

// A broker that stops answering during a call must not delay the caller beyond its context.
func TestPublishFailsFastWhenBrokerHangs(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	broker := freezer{swallowed: make(chan struct{}, 1)}
	p := producer(t, kafkatest.Config(t), kgo.Dialer(broker.dial))
	kafka.WithTimeout(time.Hour)(p) // only the caller's context ends a call
	require.NoError(t, p.Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("1")}))
	broker.frozen.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-broker.swallowed
		cancel()
	}()
	require.ErrorIs(t, p.Publish(ctx, kafka.Record{Topic: topic, Value: []byte("2")}), errs.ErrUnavailable)

	broker.frozen.Store(false)
	testkit.UntilNoError(t, func() error {
		return p.Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("3")})
	}, "it recovers by itself")
	require.Equal(t, "3", string(kafkatest.Read(t, topic, 2)[1].Value), "what was given up never arrived")
}

func TestSASLNeedsCredentials(t *testing.T) {
	t.Parallel()
	for _, cfg := range []kafka.Config{{SASL: "SCRAM-SHA-512", Username: "u"}, {SASL: "PLAIN"}} {
		cfg = kafkatest.WithKeys(cfg)
		cfg.Brokers = []string{"127.0.0.1:1"}
		_, err := kafka.NewProducer(cfg, "test")
		require.ErrorContains(t, err, "KAFKA_")
		_, err = kafka.NewConsumer(cfg, "g", []string{"t"}, kafka.Each(nil), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "KAFKA_")
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var c commonv1.Caller
	require.NoError(t, kafka.Decode(kafka.Record{Value: []byte(`{"userId":"u1","epoch":7,"newMember":[1]}`)}, &c))
	require.Equal(t, "u1", c.GetUserId())
	require.Equal(t, int64(7), c.GetEpoch())
	for _, bad := range []string{``, `[`, `{"epoch":"x"}`, "\xff"} {
		require.True(t, kafka.IsPoison(kafka.Decode(kafka.Record{Value: []byte(bad)}, &c)), "%q", bad)
	}
	var ts timestamppb.Timestamp
	require.NoError(t, kafka.Decode(kafka.Record{Value: []byte(`"2026-01-02T03:04:05Z"`)}, &ts))
	require.NoError(t, kafka.Poison(nil))
}

func TestEventHeadersAndIDs(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	id := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("KST", 9*3600))
	p := kafkatest.Producer(t)
	require.NoError(t, p.Publish(t.Context(),
		kafka.Record{Topic: topic, Value: []byte("a"), Headers: kafka.EventHeaders(id, "payment", "PAYMENT_CONFIRMED", at)},
		kafka.Record{Topic: topic, Value: []byte("b")}))
	recs := kafkatest.Read(t, topic, 2)
	require.Equal(t, id.String(), recs[0].EventID)
	require.Equal(t, "PAYMENT_CONFIRMED", recs[0].Type)
	require.Equal(t, "2026-01-01T18:04:05.000006Z", recs[0].Headers[kafka.HeaderTime])
	require.Equal(t, "1.0", recs[0].Headers[kafka.HeaderSpecVersion])
	require.Equal(t, topic+"/0/1", recs[1].EventID, "without ce_id the place in the log is the id")
}

// The consumer's span continues the trace that the record carries; the publisher's links to it.
func TestTraces(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(previous) })

	topic := kafkatest.TopicOf(t, 1)
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	headers := map[string]string{}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("1"), Headers: headers}))
	require.NoError(t, kafkatest.Producer(t).Publish(ctx, kafka.Record{Topic: topic, Value: []byte("2")}))

	got := make(chan trace.SpanContext, 2)
	start(t, kafkatest.Name("group"), topic, kafka.Each(func(ctx context.Context, _ kafka.Record) error {
		got <- trace.SpanContextFromContext(ctx)
		return nil
	}))
	want := request.SpanContext().TraceID()
	require.Equal(t, want, testkit.Receive(t, got).TraceID(), "the trace in the record's headers")
	require.Equal(t, want, testkit.Receive(t, got).TraceID(), "without headers, the trace of the publishing context")

	linked := false
	for _, span := range exported.GetSpans() {
		if span.Name == "publish "+topic && len(span.Links) == 1 {
			linked = linked || span.Links[0].SpanContext.TraceID() == want
		}
	}
	require.True(t, linked)
}

func TestNewConnectionsUsePasswordFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	cfg := kafka.Config{Username: "urr", Password: "at the start", PasswordFile: file}
	_, password, err := cfg.SignIn(t.Context())
	require.NoError(t, err)
	require.Equal(t, "at the start", password, "there is no file")
	require.NoError(t, os.WriteFile(file, []byte("of this moment\n"), 0o600))
	user, password, err := cfg.SignIn(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"urr", "of this moment"}, []string{user, password})
	cfg.PasswordFile = ""
	_, password, err = cfg.SignIn(t.Context())
	require.NoError(t, err)
	require.Equal(t, "at the start", password)
}
