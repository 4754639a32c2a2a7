package queue_test

import (
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/sqs"
	"urr.guru/pkg/testkit"
)

// fakeSQS behaves like the SQS of AWS: a long poll goes on after its client has given up, and hides
// the messages that it finds.
type fakeSQS struct {
	asked  chan string   // ids of receive calls
	sent   chan string   // bodies of messages to receive
	freed  chan []string // receipt handles, in the order of the call
	taken  chan []entry  // messages of a call
	refuse bool          // refuses calls that send
}

type entry struct {
	Id, ReceiptHandle, MessageBody, MessageGroupId, MessageDeduplicationId string
	MessageAttributes                                                      map[string]struct{ StringValue string }
}

func newFakeSQS(t *testing.T) (*fakeSQS, *queue.Queue) {
	t.Helper()
	p := &fakeSQS{asked: make(chan string, 9), sent: make(chan string, 9), freed: make(chan []string, 9), taken: make(chan []entry, 9)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(p.sent) })
	client, err := sqs.Open(t.Context(), sqs.Config{Region: "local", Endpoint: server.URL})
	require.NoError(t, err)
	return p, queue.New(client, queue.Config{Name: "requests"})
}

func (p *fakeSQS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ReceiveRequestAttemptId string
		Entries                 []entry
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := map[string]any{}
	switch _, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); call {
	case "GetQueueUrl":
		out["QueueUrl"] = "http://" + r.Host + "/requests.fifo"
	case "ReceiveMessage":
		p.asked <- in.ReceiveRequestAttemptId
		body := <-p.sent
		sum := md5.Sum([]byte(body)) //nolint:gosec // SQS's checksum
		out["Messages"] = []any{map[string]any{"Body": body, "MessageId": "1", "ReceiptHandle": "h", "MD5OfBody": hex.EncodeToString(sum[:])}}
	case "SendMessageBatch":
		p.taken <- in.Entries
		var ok []any
		for _, e := range in.Entries {
			sum := md5.Sum([]byte(e.MessageBody)) //nolint:gosec // SQS's checksum
			ok = append(ok, map[string]any{"Id": e.Id, "MessageId": e.Id, "MD5OfMessageBody": hex.EncodeToString(sum[:])})
		}
		if out["Successful"] = ok; p.refuse {
			out = map[string]any{"Failed": []any{map[string]any{"Id": "0", "Code": "InternalError"}}}
		}
	case "ChangeMessageVisibilityBatch":
		var handles []string
		for _, e := range in.Entries {
			handles = append(handles, e.ReceiptHandle)
		}
		p.freed <- handles
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

// A receiver that stops waits for the end of its poll, so that no message stays hidden.
func TestPollEndsAfterItsReceiverHasStopped(t *testing.T) {
	t.Parallel()
	server, q := newFakeSQS(t)
	ctx, stop := context.WithCancel(t.Context())
	type answer struct {
		got []promotion.Delivery
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := q.Receive(ctx)
		answers <- answer{got, err}
	}()
	require.NotEmpty(t, testkit.Receive(t, server.asked, "the poll"), "an id, so that a repeated call gets the same messages")
	stop()
	server.sent <- "late"
	a := testkit.Receive(t, answers, "the end of the poll")
	require.NoError(t, a.err)
	require.Len(t, a.got, 1)
	require.Equal(t, "late", a.got[0].Body)
}

func TestMessagesAreReleasedFromTheLastOn(t *testing.T) {
	t.Parallel()
	server, q := newFakeSQS(t)
	require.NoError(t, q.Release(t.Context(), []promotion.Delivery{{Handle: "1"}, {Handle: "2"}, {Handle: "3"}}, 0))
	require.Equal(t, []string{"3", "2", "1"}, testkit.Receive(t, server.freed, "the release"))
}

func outgoing(event string, kind promotion.Type, n int) (out []promotion.Outgoing) {
	for range n {
		out = append(out, promotion.Outgoing{Message: promotion.Message{RequestID: uuid.NewString(), EventID: event, UserID: "ann", EventType: kind}})
	}
	return out
}

// The requests of a group share messages, in their order, even with other groups' requests between.
func TestRequestsShareMessages(t *testing.T) {
	t.Parallel()
	server, q := newFakeSQS(t)
	a, b := outgoing("a", promotion.FirstCome, 20), outgoing("b", promotion.FirstCome, 1)
	out := append(append(append([]promotion.Outgoing(nil), a[:5]...), b...), a[5:]...)
	for _, err := range q.Send(t.Context(), out) {
		require.NoError(t, err)
	}
	got := testkit.Receive(t, server.taken, "the call")
	require.Len(t, got, 4)
	var order []string
	for i, n := range []int{9, 1, 9, 2} {
		members, err := promotion.DecodeBody(got[i].MessageBody)
		require.NoError(t, err)
		require.Len(t, members, n)
		require.Equal(t, members[0].Group(), got[i].MessageGroupId)
		require.Equal(t, members[0].RequestID, got[i].MessageAttributes["requestId"].StringValue)
		require.Equal(t, strconv.Itoa(n), got[i].MessageAttributes["members"].StringValue)
		for _, m := range members {
			if m.EventID == "a" {
				order = append(order, m.RequestID)
			}
		}
	}
	for i, m := range a {
		require.Equal(t, m.RequestID, order[i])
	}
	require.Equal(t, b[0].RequestID, got[1].MessageDeduplicationId, "alone")
}

// The requests of a lottery are in 64 groups: their messages need several calls. If the queue
// accepts none of a call, the later messages are not sent.
func TestMessagesOfManyGroups(t *testing.T) {
	t.Parallel()
	server, q := newFakeSQS(t)
	out := outgoing("draw", promotion.Lottery, queue.MaxRequests)
	results := q.Send(t.Context(), out)
	sent := 0
	for sent < len(out) {
		for _, e := range testkit.Receive(t, server.taken, "a call") {
			members, err := promotion.DecodeBody(e.MessageBody)
			require.NoError(t, err)
			sent += len(members)
		}
	}
	require.Equal(t, len(out), sent)
	for _, err := range results {
		require.NoError(t, err)
	}
	server.refuse = true
	for _, err := range q.Send(t.Context(), out) {
		require.Error(t, err)
	}
	testkit.Receive(t, server.taken, "the refused call")
	require.Empty(t, server.taken)
}
