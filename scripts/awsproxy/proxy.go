// Package awsproxy is an HTTP proxy between services and the development servers of DynamoDB and
// SQS. It counts calls, injects faults, limits DynamoDB as AWS does, and records the SequenceNumber
// that the queue gives to each message.
package awsproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"urr.guru/pkg/dynamo/dynamotest/strict"
)

// Call is one HTTP request to DynamoDB or SQS. A client's retry is another Call.
type Call struct {
	// Caller is the name of the client, which its URL contains; see Proxy.URL.
	Caller string
	// Name is the name of the operation, such as TransactWriteItems.
	Name string
	Body []byte
}

// Fault is what the proxy does wrong with a call. With the zero value, it passes the call on.
type Fault struct {
	// Cut closes the connection without passing the call on.
	Cut bool
	// Lost passes the call on, and closes the connection instead of returning the answer.
	Lost bool
	// Status and Body are an answer that the proxy gives without passing the call on.
	Status int
	Body   []byte
	// Delay is a pause before the call is handled.
	Delay time.Duration
	// Swallow acknowledges messages without putting them in the queue.
	Swallow bool
	// Refuse rejects every second message of a batch, beginning with the first.
	Refuse bool
	// Statements has, by index, the errors of statements of a BatchExecuteStatement.
	Statements map[int]StatementFault
	// Repeat is how many later calls receive the messages of this call again.
	Repeat int
}

// Rule chooses the fault of each call. It is called concurrently.
type Rule func(Call) Fault

// Proxy is an HTTP proxy in front of one development server: DynamoDB Local or ElasticMQ.
type Proxy struct {
	upstream   string
	listener   net.Listener
	server     *http.Server
	client     *http.Client
	countsOnly bool          // forwards batches of messages unchanged, and records no messages
	rules      *strict.Rules // of DynamoDB; nil: it has no limits

	mu     sync.Mutex
	rule   Rule
	calls  map[string]int
	faults int
	queue  queueState
}

// New starts a proxy that passes calls on to the server at the URL upstream.
func New(upstream string) (*Proxy, error) { return startProxy(upstream, false) }

// NewCounter starts a proxy that only counts calls, for measurements. It forwards batches of
// messages unchanged, records no SequenceNumbers, and ignores the faults Swallow and Refuse.
func NewCounter(upstream string) (*Proxy, error) { return startProxy(upstream, true) }

func startProxy(upstream string, countsOnly bool) (*Proxy, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", upstream, err)
	}
	p := newProxy(upstream)
	p.listener, p.countsOnly = l, countsOnly
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }() // ends when Close is called
	return p, nil
}

// NewStrict returns the handler of a proxy before the DynamoDB at the URL upstream, which limits it by
// the rules. It listens at no address of its own.
func NewStrict(upstream string, rules *strict.Rules) http.Handler {
	p := newProxy(upstream)
	p.rules = rules
	return p
}

func newProxy(upstream string) *Proxy {
	return &Proxy{
		upstream: upstream, calls: map[string]int{}, queue: newQueueState(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}},
	}
}

// URL returns the proxy's address for the client with the name caller.
func (p *Proxy) URL(caller string) string {
	return "http://" + p.listener.Addr().String() + "/" + caller
}

func (p *Proxy) Close() {
	_ = p.server.Close()
	p.client.CloseIdleConnections()
}

// Use sets the rule that chooses the faults of later calls; with nil, they have none.
func (p *Proxy) Use(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
}

// Calls returns the number of calls so far by operation, and how many of them had a fault.
func (p *Proxy) Calls() (calls map[string]int, faults int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls), p.faults
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has disconnected
	}
	c := Call{Caller: strings.Trim(r.URL.Path, "/"), Name: operationName(r.Header), Body: body}
	f := p.chooseFault(c)
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case f.Cut:
		cutConnection(w)
		return
	case f.Status != 0:
		writeAnswer(w, answer{status: f.Status, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body: f.Body})
		return
	}
	a, err := p.handle(r, c, f)
	if err != nil || f.Lost {
		cutConnection(w)
		return
	}
	writeAnswer(w, a)
}

func (p *Proxy) chooseFault(c Call) (f Fault) {
	p.mu.Lock()
	rule := p.rule
	p.calls[c.Name]++
	p.mu.Unlock()
	if rule == nil {
		return f
	}
	f = rule(c)
	if f.Cut || f.Lost || f.Status != 0 || f.Swallow || f.Refuse || f.Repeat > 0 || len(f.Statements) > 0 {
		p.mu.Lock()
		p.faults++
		p.mu.Unlock()
	}
	return f
}

func (p *Proxy) handle(r *http.Request, c Call, f Fault) (answer, error) {
	switch {
	case strings.HasPrefix(c.Name, "SendMessage") && !p.countsOnly:
		return p.sendBatch(r, c, f)
	case c.Name == "ReceiveMessage":
		return p.receive(r, c, f)
	case p.rules != nil, c.Name == executeBatch && len(f.Statements) > 0:
		return p.limited(r, c, f.Statements)
	default:
		return p.forward(r.Context(), r.Header, c.Body)
	}
}

// answer is a complete HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// forward sends a call to the server and returns its response.
func (p *Proxy) forward(ctx context.Context, header http.Header, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.upstream+"/", bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("forward: %w", err)
	}
	for _, name := range []string{"Authorization", "Content-Type", "X-Amz-Date", "X-Amz-Target"} {
		if v := header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	res, err := p.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("forward: %w", err)
	}
	got, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: got}, errors.Join(err, res.Body.Close())
}

func writeAnswer(w http.ResponseWriter, a answer) {
	for name, v := range a.header {
		if name != "Content-Length" && name != "Date" {
			w.Header()[name] = v
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the caller may have disconnected
}

// CallsSince returns the number of calls after the one of Calls that returned `before`: calls of
// the named operations, or of all operations if none is named.
func (p *Proxy) CallsSince(before map[string]int, operations ...string) (sum int) {
	now, _ := p.Calls()
	for name, n := range now {
		if len(operations) == 0 || slices.Contains(operations, name) {
			sum += n - before[name]
		}
	}
	return sum
}

func cutConnection(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

// operationName returns the name of the operation in the header X-Amz-Target.
func operationName(h http.Header) string {
	_, name, _ := strings.Cut(h.Get("X-Amz-Target"), ".")
	return name
}

// Item is an item that a DynamoDB transaction writes or checks.
type Item struct {
	PK, SK string
	// Whole is the JSON of the entry: a Put, Update, Delete or ConditionCheck.
	Whole json.RawMessage
}

// Items returns the items of a TransactWriteItems in their order; nil for other calls.
func (c Call) Items() []Item {
	if c.Name != "TransactWriteItems" {
		return nil
	}
	type key struct {
		PK, SK struct{ S string }
	}
	var in struct {
		TransactItems []map[string]json.RawMessage
	}
	if json.Unmarshal(c.Body, &in) != nil {
		return nil
	}
	out := make([]Item, len(in.TransactItems))
	for i, item := range in.TransactItems {
		for _, whole := range item { // it has one field: Put, Update, Delete or ConditionCheck
			var write struct {
				Item, Key *key
			}
			if json.Unmarshal(whole, &write) != nil {
				continue
			}
			k := write.Item
			if k == nil {
				k = write.Key
			}
			if k != nil {
				out[i] = Item{PK: k.PK.S, SK: k.SK.S, Whole: whole}
			}
		}
	}
	return out
}

// FindItem returns the index of the first item whose keys begin with pk and sk, or -1.
func (c Call) FindItem(pk, sk string) int {
	for i, it := range c.Items() {
		if strings.HasPrefix(it.PK, pk) && strings.HasPrefix(it.SK, sk) {
			return i
		}
	}
	return -1
}

// Unavailable returns a fault: the proxy answers with an internal server error (500).
func Unavailable() Fault {
	return Fault{Status: http.StatusInternalServerError, Body: []byte(`{"__type": "InternalServerError", "message": "injected"}`)}
}

// Throttled returns a fault: the proxy answers as DynamoDB does when it gets too many calls.
func Throttled() Fault {
	return Fault{
		Status: http.StatusBadRequest,
		Body:   []byte(`{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "injected"}`),
	}
}

// Reasons for which DynamoDB cancels a transaction because of one of its items.
const (
	Conflict   = "TransactionConflict"
	Validation = "ValidationError"
	Capacity   = "ThrottlingError"
)

// Canceled returns a fault: the answer that the transaction was cancelled because of one item.
func Canceled(c Call, item int, reason string) Fault {
	type cause struct {
		Code    string
		Message string `json:",omitempty"`
	}
	reasons := make([]cause, len(c.Items()))
	for i := range reasons {
		reasons[i].Code = "None"
	}
	if item < 0 || item >= len(reasons) {
		return Fault{}
	}
	reasons[item] = cause{reason, "injected"}
	body, _ := json.Marshal(map[string]any{ // strings can always be encoded
		"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "Message": "Transaction cancelled", "CancellationReasons": reasons,
	})
	return Fault{Status: http.StatusBadRequest, Body: body}
}
