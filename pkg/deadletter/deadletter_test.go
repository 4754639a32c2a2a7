package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc"

	"urr.guru/pkg/deadletter"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
)

const group, other = "ticket-service-group", "stats-service-group"

// marks is an in-memory deadletter.Marks. NoteRedriven fails while down is set.
type marks struct {
	mu   sync.Mutex
	at   map[string]time.Time
	down error
}

func (m *marks) Redriven(_ context.Context, topic string, letters []string) (map[string]time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := map[string]time.Time{}
	for _, l := range letters {
		if t, known := m.at[topic+l]; known {
			at[l] = t
		}
	}
	return at, nil
}

func (m *marks) NoteRedriven(_ context.Context, topic string, letters []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range letters {
		if m.down == nil {
			m.at[topic+l] = time.UnixMilli(7)
		}
	}
	return m.down
}

// fixture has a topic with dead letters.
type fixture struct {
	*testing.T

	topic    string
	source   deadletter.Source
	producer *kafka.Producer
	marks    *marks
}

func newFixture(t *testing.T, partitions int32) *fixture {
	t.Helper()
	f := &fixture{T: t, topic: "payment-events", marks: &marks{at: map[string]time.Time{}}}
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix = kafkatest.Name("prefix") + "-"
	redriven := kafka.TopicOfRedriven(group)
	redriven.Partitions = partitions
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: f.topic, Partitions: partitions}, redriven))
	t.Cleanup(func() {
		kafkatest.Delete(t, cfg.TopicPrefix+f.topic, cfg.TopicPrefix+f.topic+kafka.DLQSuffix, cfg.TopicPrefix+redriven.Name)
	})
	f.producer = kafkatest.ProducerOf(t, cfg)
	f.source = deadletter.Source{Kafka: cfg, Group: group, Topics: []string{f.topic}}
	return f
}

// addDeadLetters publishes n dead letters of a group. Their values and event ids are from, from+1,
// …
func (f *fixture) addDeadLetters(ofGroup string, from, n int) {
	f.Helper()
	var records []kafka.Record
	for i := from; i < from+n; i++ {
		records = append(records, kafka.Record{
			Topic: f.topic + kafka.DLQSuffix, Key: fmt.Append(nil, "k", i%7), Value: fmt.Append(nil, i), Headers: map[string]string{
				kafka.HeaderID: fmt.Sprint("e", i), kafka.HeaderType: "PAYMENT_CONFIRMED", kafka.HeaderGroup: ofGroup,
				kafka.HeaderError: "no such order", kafka.HeaderOrigin: f.topic + "/0/1",
			},
		})
	}
	require.NoError(f, f.producer.Publish(f.Context(), records...))
}

// serve starts the RPC service with the producer p and returns a client of it.
func (f *fixture) serve(p deadletter.Producer) kafkav1.DeadLetterServiceClient {
	letters := deadletter.New(f.source, p, f.marks)
	conn := rpctest.Serve(f.T, func(r grpc.ServiceRegistrar) { deadletter.Register(r, letters) },
		rpctest.WithDial(rpc.WithTimeout(time.Minute))) // a busy broker may need more than production waits
	return kafkav1.NewDeadLetterServiceClient(conn)
}

// redriven waits for n records in the group's topic of redriven letters, and returns their values.
func (f *fixture) redriven(n int) (values []string) {
	f.Helper()
	for _, r := range kafkatest.Read(f, f.source.Kafka.TopicPrefix+kafka.RedriveTopic(group), n) {
		require.Equal(f, f.topic+"/0/1", r.Headers[kafka.HeaderOrigin])
		require.Equal(f, "e"+string(r.Value), r.EventID)
		values = append(values, string(r.Value))
	}
	return values
}

func operator() *commonv1.Caller { return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}} }

// run runs the redrive command of a service on the fixture's letters and returns its output.
func (f *fixture) run(args ...string) (string, error) {
	f.Helper()
	command := deadletter.Command("ticket", func(*struct{}) deadletter.Source { return f.source },
		func(context.Context, *struct{}) (deadletter.Marks, func(), error) { return f.marks, func() {}, nil })
	var out bytes.Buffer
	err := command.Run(f.Context(), &struct{}{}, args, &out)
	return out.String(), err
}

// fragile is a producer that cannot publish a record if fail returns an error for its value.
type fragile struct {
	*kafka.Producer

	fail func(value string) error
}

func (p *fragile) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	failed := make([]error, len(recs))
	for i, r := range recs {
		if failed[i] = p.fail(string(r.Value)); failed[i] == nil {
			failed[i] = p.Producer.PublishEach(ctx, []kafka.Record{r})[0]
		}
	}
	return failed
}

// requireInOrder checks that the values of each key ascend, and that each of 0 … n-1 occurs once.
func requireInOrder(t *testing.T, values []string, n int) {
	t.Helper()
	last, seen := map[int]int{}, map[int]bool{}
	for _, v := range values {
		var i int
		_, err := fmt.Sscan(v, &i)
		require.NoError(t, err)
		require.False(t, seen[i], "%d twice", i)
		require.LessOrEqual(t, last[i%7], i, "in the order of its key")
		last[i%7], seen[i] = i, true
	}
	require.Len(t, seen, n)
}

// Repeated calls redrive every letter of the group once, the oldest first, even behind a thousand
// others. Letters of other groups are not redriven.
func TestRedriveReachesAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	const all = 2500
	f.addDeadLetters(group, 0, all)
	f.addDeadLetters(other, all, 1200)
	client := f.serve(f.producer)
	in := &kafkav1.RedriveTopicRequest{Caller: operator(), Topic: f.topic}
	done := 0
	for calls := 0; ; calls++ {
		require.Less(t, calls, 100)
		out, err := client.RedriveTopic(t.Context(), in)
		require.NoError(t, err)
		require.LessOrEqual(t, len(out.GetRedriven()), 100)
		require.Empty(t, out.GetRefused())
		done += len(out.GetRedriven())
		if in.Cursor = out.GetNextCursor(); calls == 2 {
			f.addDeadLetters(group, 9999, 1) // a letter added meanwhile waits for the next redrive
		}
		require.Equal(t, in.GetCursor() != "", out.GetMore())
		if !out.GetMore() {
			break
		}
	}
	require.Equal(t, all, done)
	requireInOrder(t, f.redriven(all), all)

	out, err := f.run("redrive", "--topic", f.topic)
	require.NoError(t, err)
	require.Equal(t, f.topic+": 1 redriven, 0 refused by the broker\n", out)
	out, err = f.run("redrive")
	require.NoError(t, err)
	require.Equal(t, f.topic+": 0 redriven, 0 refused by the broker\n", out, "each once")
}

// The command redrives any number of letters, the oldest first. The next run redrives the rest.
func TestCommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.addDeadLetters(group, 0, 1500)
	out, err := f.run("redrive", "--list", "--max", "2")
	require.NoError(t, err)
	require.Regexp(t, `^`+f.topic+"\t0-0\t20.*Z\t\"k0\"\tPAYMENT_CONFIRMED\t\"no such order\"\n.*\t0-1\t.*\n"+f.topic+`: 2 not redriven yet, 0 refused by the broker\n$`, out)
	out, err = f.run("redrive", "--max", "1100")
	require.NoError(t, err)
	require.Equal(t, f.topic+": 1100 redriven, 0 refused by the broker\n", out)
	out, err = f.run("redrive", "--list")
	require.NoError(t, err)
	require.Contains(t, out, "\t0-1100\t")
	require.Contains(t, out, ": 400 not redriven yet")
	out, err = f.run("redrive")
	require.NoError(t, err)
	require.Equal(t, f.topic+": 400 redriven, 0 refused by the broker\n", out)
	requireInOrder(t, f.redriven(1500), 1500)

	out, err = f.run("redrive", "--help")
	require.NoError(t, err)
	require.Contains(t, out, "usage: ticket kafka redrive [--topic TOPIC] [--max N] [--list]\nPublishes dead letters")
	require.Contains(t, out, "of one TOPIC only: "+f.topic)
	for _, bad := range [][]string{nil, {"list"}, {"redrive", "all"}, {"redrive", "--max", "-1"}, {"redrive", "--topic", "payments"}} {
		_, err = f.run(bad...)
		require.Error(t, err, bad)
	}
}

// An interrupted redrive reports how many letters it published. The next one publishes the rest.
func TestRedriveAfterAnInterruption(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.addDeadLetters(group, 0, 30)
	down := func(value string) error {
		if len(value) == 2 && value >= "12" {
			return errors.New("the broker is away")
		}
		return nil
	}
	_, err := f.serve(&fragile{f.producer, down}).RedriveTopic(t.Context(), &kafkav1.RedriveTopicRequest{Caller: operator(), Topic: f.topic})
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Len(t, f.marks.at, 12)

	f.marks.down = errors.New("the store is away")
	out, err := f.run("redrive", "--max", "5")
	require.ErrorIs(t, err, f.marks.down)
	require.Equal(t, f.topic+": 5 redriven, 0 refused by the broker\n", out)
	require.Len(t, f.marks.at, 12)

	f.marks.down = nil
	out, err = f.run("redrive")
	require.NoError(t, err)
	require.Equal(t, f.topic+": 18 redriven, 0 refused by the broker\n", out)
	values := f.redriven(12 + 5 + 18)
	require.Equal(t, values[12:17], values[17:22], "not marked, so published twice")
	requireInOrder(t, slices.Concat(values[:12], values[17:]), 30)
}

// A letter that the broker refuses does not stop the redrive of the other letters.
func TestRefusedLetter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.addDeadLetters(group, 0, 5)
	refuse := func(value string) error {
		if value == "2" {
			return kerr.MessageTooLarge
		}
		return nil
	}
	client := f.serve(&fragile{f.producer, refuse})
	out, err := client.RedriveTopic(t.Context(), &kafkav1.RedriveTopicRequest{Caller: operator(), Topic: f.topic})
	require.NoError(t, err)
	require.Equal(t, []string{"0-0", "0-1", "0-3", "0-4"}, out.GetRedriven())
	require.Equal(t, []string{"0-2"}, out.GetRefused())
	require.False(t, out.GetMore())
	f.redriven(4)
}

// Operators list the letters, the latest first, and redrive them by their ids.
func TestListAndIDs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.addDeadLetters(group, 0, 2)
	f.addDeadLetters(other, 2, 3)
	f.addDeadLetters(group, 5, 1)
	client := f.serve(f.producer)
	list := &kafkav1.ListTopicDeadLettersRequest{Caller: operator(), Topic: f.topic, Limit: 2}
	page, err := client.ListTopicDeadLetters(t.Context(), list)
	require.NoError(t, err)
	ids := func(page *kafkav1.ListTopicDeadLettersResponse) (all []string) {
		for _, l := range page.GetItems() {
			all = append(all, l.GetId())
		}
		return all
	}
	require.Equal(t, []string{"0-5", "0-1"}, ids(page))
	l := page.GetItems()[1]
	require.Equal(t, []string{group, "k1", "PAYMENT_CONFIRMED", "1", "no such order", f.topic + "/0/1"},
		[]string{l.GetGroup(), l.GetKey(), l.GetType(), l.GetBody(), l.GetError(), l.GetOrigin()})
	require.Nil(t, l.RedrivenAt)
	list.Cursor = page.GetNextCursor()
	page, err = client.ListTopicDeadLetters(t.Context(), list)
	require.NoError(t, err)
	require.Equal(t, []string{"0-0"}, ids(page))
	require.Empty(t, page.GetNextCursor())

	redrive := &kafkav1.RedriveTopicRequest{Caller: operator(), Topic: f.topic, Ids: []string{"0-5", "0-0", "0-0", "0-2", "0-9", "7-0", "x", "0-+1"}}
	out, err := client.RedriveTopic(t.Context(), redrive)
	require.NoError(t, err)
	require.Equal(t, []string{"0-0", "0-5"}, out.GetRedriven(), "in their order")
	require.Equal(t, []string{"0-2", "0-9", "7-0", "x", "0-+1"}, out.GetRefused())
	require.Equal(t, []string{"0", "5"}, f.redriven(2))
	out, err = client.RedriveTopic(t.Context(), redrive)
	require.NoError(t, err)
	require.Empty(t, out.GetRedriven(), "each once")
	list.Cursor = ""
	page, err = client.ListTopicDeadLetters(t.Context(), list)
	require.NoError(t, err)
	require.EqualValues(t, 7, page.GetItems()[0].GetRedrivenAt())

	for cursor, want := range map[string]error{"x": errs.ErrInvalidCursor, "AQ": errs.ErrInvalidCursor, "-f----8P": errs.ErrInvalidCursor, "BQE": nil} {
		list.Cursor = cursor
		_, err = client.ListTopicDeadLetters(t.Context(), list)
		require.ErrorIs(t, err, want, cursor)
	}
	_, err = client.ListTopicDeadLetters(t.Context(), &kafkav1.ListTopicDeadLettersRequest{Caller: operator(), Topic: "some-events"})
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = client.RedriveTopic(t.Context(), &kafkav1.RedriveTopicRequest{Caller: &commonv1.Caller{UserId: "bob"}, Topic: f.topic})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
}
