package awsproxy

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum of bodies
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// queueState is what a proxy in front of SQS remembers about the messages.
type queueState struct {
	sent map[string][]string // by request id: its positions in the queue, in the order of SQS's answers
	lost map[string]bool     // ids of the requests in swallowed messages
	// repeats has, by queue URL, answers whose messages are delivered once more.
	repeats map[string][]answer
}

func newQueueState() queueState {
	return queueState{sent: map[string][]string{}, lost: map[string]bool{}, repeats: map[string][]answer{}}
}

// Sent returns, by request id, the positions of requests in the queue. A position is the message's
// SequenceNumber, a point, and the request's index in the message in two digits. A message that is
// sent again with the same deduplication id keeps its SequenceNumber.
func (p *Proxy) Sent() map[string][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string][]string, len(p.queue.sent))
	for id, seqs := range p.queue.sent {
		out[id] = slices.Clone(seqs)
	}
	return out
}

func (p *Proxy) Swallowed(requestID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.lost[requestID]
}

// batchEntry has all JSON fields of one message in a SendMessageBatch, so that none is lost.
type batchEntry map[string]json.RawMessage

func (e batchEntry) textMember(name string) (s string) {
	_ = json.Unmarshal(e[name], &s) // absent or not a text: empty
	return s
}

// requestIDs returns the request ids in the message's body.
func (e batchEntry) requestIDs() (ids []string) {
	var m struct {
		Members []struct {
			RequestID string `json:"requestId"`
		} `json:"members"`
	}
	_ = json.Unmarshal([]byte(e.textMember("MessageBody")), &m) // some messages are unreadable on purpose
	for _, member := range m.Members {
		ids = append(ids, member.RequestID)
	}
	return ids
}

// sendResult is the result for one message in the answer to a SendMessageBatch.
type sendResult struct {
	ID                     string `json:"Id,omitempty"`
	MessageID              string `json:"MessageId,omitempty"`
	MD5OfMessageBody       string `json:"MD5OfMessageBody,omitempty"`       //nolint:tagliatelle // SQS's name
	MD5OfMessageAttributes string `json:"MD5OfMessageAttributes,omitempty"` //nolint:tagliatelle // SQS's name
	SequenceNumber         string `json:"SequenceNumber,omitempty"`
	Code                   string `json:"Code,omitempty"`
	Message                string `json:"Message,omitempty"`
}

// sendBatch sends the messages of a batch one by one, because ElasticMQ returns a SequenceNumber
// only when a message is sent alone. It continues even if the caller disconnects, so that every
// message in the queue is recorded.
func (p *Proxy) sendBatch(r *http.Request, c Call, f Fault) (answer, error) {
	var in struct {
		QueueURL json.RawMessage `json:"QueueUrl"`
		Entries  []batchEntry    `json:"Entries"`
	}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return answer{}, fmt.Errorf("send: %w", err)
	}
	if c.Name == "SendMessage" {
		var message batchEntry
		if err := json.Unmarshal(c.Body, &message); err != nil {
			return answer{}, fmt.Errorf("send: %w", err)
		}
		got, a, err := p.sendMessage(r, in.QueueURL, message, f.Swallow)
		if err == nil && a.status == http.StatusOK {
			a.body, err = json.Marshal(got)
		}
		return a, err
	}
	var out struct {
		Successful []sendResult `json:"Successful"`
		Failed     []sendResult `json:"Failed"`
	}
	for i, e := range in.Entries {
		if f.Refuse && i%2 == 0 {
			out.Failed = append(out.Failed, sendResult{ID: e.textMember("Id"), Code: "InternalError", Message: "refused by the test"})
			continue
		}
		got, a, err := p.sendMessage(r, in.QueueURL, e, f.Swallow)
		if err != nil {
			return a, err
		}
		got.ID = e.textMember("Id")
		if a.status == http.StatusOK {
			out.Successful = append(out.Successful, got)
		} else {
			out.Failed = append(out.Failed, sendResult{ID: got.ID, Code: "InternalError", Message: string(a.body)})
		}
	}
	body, err := json.Marshal(out)
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body: body}, err
}

func (p *Proxy) sendMessage(r *http.Request, url json.RawMessage, e batchEntry, swallow bool) (got sendResult, a answer, err error) {
	if swallow {
		sum := md5.Sum([]byte(e.textMember("MessageBody"))) //nolint:gosec // SQS's checksum
		p.mu.Lock()
		for _, id := range e.requestIDs() {
			p.queue.lost[id] = true
		}
		p.mu.Unlock()
		a = answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}}
		return sendResult{MessageID: uuid.NewString(), MD5OfMessageBody: hex.EncodeToString(sum[:])}, a, nil
	}
	message := batchEntry{"QueueUrl": url}
	for name, v := range e {
		if name != "Id" {
			message[name] = v
		}
	}
	body, err := json.Marshal(message)
	if err != nil {
		return got, a, fmt.Errorf("send: %w", err)
	}
	header := r.Header.Clone()
	header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	a, err = p.forward(context.WithoutCancel(r.Context()), header, body)
	if err != nil || a.status != http.StatusOK {
		return got, a, err
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		return got, a, fmt.Errorf("send: %w", err)
	}
	if got.SequenceNumber != "" && !isDeadLetterQueue(url) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, id := range e.requestIDs() {
			if turn := fmt.Sprintf("%s.%02d", got.SequenceNumber, i); !slices.Contains(p.queue.sent[id], turn) {
				p.queue.sent[id] = append(p.queue.sent[id], turn)
			}
		}
	}
	return got, a, nil
}

// isDeadLetterQueue reports whether a queue's URL is that of a dead letter queue.
func isDeadLetterQueue(url json.RawMessage) bool { return strings.Contains(string(url), "-dlq.fifo") }

// pollInterval is the time between two requests to the server while a caller waits for messages.
const pollInterval = 25 * time.Millisecond

// receive returns messages that are to be delivered again; if there are none, it asks the server.
func (p *Proxy) receive(r *http.Request, c Call, f Fault) (answer, error) {
	var in struct {
		QueueURL string `json:"QueueUrl"`
	}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return answer{}, fmt.Errorf("receive: %w", err)
	}
	p.mu.Lock()
	if repeats := p.queue.repeats[in.QueueURL]; len(repeats) > 0 {
		p.queue.repeats[in.QueueURL] = repeats[1:]
		p.mu.Unlock()
		return repeats[0], nil
	}
	p.mu.Unlock()
	a, err := p.pollMessages(r, c.Body)
	if err == nil && f.Repeat > 0 && hasMessages(a) {
		p.mu.Lock()
		p.queue.repeats[in.QueueURL] = append(p.queue.repeats[in.QueueURL], slices.Repeat([]answer{a}, f.Repeat)...)
		p.mu.Unlock()
	}
	return a, err
}

// pollMessages waits for messages as long as the caller asks, by short requests. It uses no long
// poll: while every message's group is being received, ElasticMQ would look for messages every
// millisecond and use a whole processor.
func (p *Proxy) pollMessages(r *http.Request, body []byte) (answer, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return answer{}, fmt.Errorf("receive: %w", err)
	}
	var seconds int
	_ = json.Unmarshal(in["WaitTimeSeconds"], &seconds) // absent: the caller does not wait
	if seconds == 0 {
		return p.forward(r.Context(), r.Header, body)
	}
	in["WaitTimeSeconds"] = json.RawMessage("0")
	once, err := json.Marshal(in)
	if err != nil {
		return answer{}, fmt.Errorf("receive: %w", err)
	}
	for deadline := time.Now().Add(time.Duration(seconds) * time.Second); ; {
		a, err := p.forward(r.Context(), r.Header, once)
		if err != nil || a.status != http.StatusOK || hasMessages(a) || time.Now().After(deadline) {
			return a, err
		}
		if !loop.Sleep(r.Context(), pollInterval) {
			return a, r.Context().Err()
		}
	}
}

func hasMessages(a answer) bool { return bytes.Contains(a.body, []byte(`"ReceiptHandle"`)) }
