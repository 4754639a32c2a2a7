// Package strict makes a DynamoDB as strict as the one of AWS: a partition accepts a limited number
// of units a second, transactions hold their items, and every call takes some milliseconds.
// DynamoDB Local has none of that. The rules stand before any Server: before Memory, which keeps
// tables in memory for tests without a server, or before DynamoDB Local by way of scripts/awsproxy.
//
// The rules are those of these pages of the DynamoDB Developer Guide: "Burst and adaptive capacity",
// "Read and write consumption", "Diagnosing throttling", "Global secondary indexes" and "Transaction
// workings". The comments say where the rules are less strict than AWS, or go beyond the pages.
package strict

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"urr.guru/pkg/loop"
)

// Answer is the answer to a call: its HTTP status and its body in DynamoDB's JSON.
type Answer struct {
	Status int
	Body   []byte
}

// Server executes a call: operation is a name such as PutItem, body is its JSON. It returns an error
// only if there is no answer.
type Server func(ctx context.Context, operation string, body []byte) (Answer, error)

// Limits are the sizes by which the rules are set.
type Limits struct {
	// Partitions is the number of partitions of each table, and of each index; 0 = 4, as AWS gives to
	// a new table with on-demand capacity. AWS splits partitions by load and size; here the number
	// stays.
	Partitions int
	// Placement chooses how keys are hashed to partitions.
	Placement int
	// Fraction of AWS's units that a partition accepts; 0 = 1. It serves slow machines.
	Fraction float64
	// NoDelay leaves out the 5 to 15 ms that a call takes.
	NoDelay bool
}

const (
	writeUnits = 1000 // a second and partition
	readUnits  = 3000

	newTable = 4 // partitions: AWS states 4,000 writes and 12,000 reads a second

	leastDelay = 5 * time.Millisecond
	mostDelay  = 15 * time.Millisecond
)

// Rules are the state of the partitions and the items that transactions hold.
type Rules struct {
	limits Limits

	mu      sync.Mutex
	tables  map[string]schema
	buckets map[string]*bucket
	held    map[string]bool                // by item
	indexed map[string]map[string]indexKey // by item and index: where the item is in the index
	counts  Counts
}

// Counts are figures of all calls so far, to any table.
type Counts struct {
	// Writes and Reads are units that were accepted, those of indexes too.
	Writes, Reads float64
	// Throttled is how many reads and writes of single items were refused for lack of units, and
	// Conflicts how many because a transaction held the item.
	Throttled, Conflicts int
}

// New makes rules that nothing has used yet.
func New(l Limits) *Rules {
	l.Partitions, l.Fraction = cmp.Or(l.Partitions, newTable), cmp.Or(l.Fraction, 1)
	return &Rules{
		limits: l, tables: map[string]schema{}, buckets: map[string]*bucket{}, held: map[string]bool{},
		indexed: map[string]map[string]indexKey{},
	}
}

// Counts returns the figures of all calls so far.
func (r *Rules) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Serve returns a Server that applies the rules to each call, and has next execute what they permit.
// They ask next for the keys of a table that they do not know.
func (r *Rules) Serve(next Server) Server {
	return func(ctx context.Context, operation string, body []byte) (Answer, error) {
		c, err := parse(operation, body)
		if err != nil {
			return Failure("SerializationException", err.Error()), nil
		}
		apply, limited := map[string]func(*call) *pass{
			"PutItem": r.single, "UpdateItem": r.single, "DeleteItem": r.single, "GetItem": r.single, "Query": r.single,
			"BatchGetItem": r.batch, "BatchWriteItem": r.batch, batchStatements: r.statements, "TransactWriteItems": r.transaction,
		}[operation]
		if !limited {
			return next(ctx, operation, body)
		}
		for _, name := range c.tables() {
			if a, err := r.learn(ctx, next, name); err != nil || a.Status != http.StatusOK {
				return a, err
			}
		}
		p := apply(&c)
		defer r.release(p.holds)
		if !r.limits.NoDelay && !loop.Sleep(ctx, leastDelay+rand.N(mostDelay-leastDelay)) { //nolint:gosec // no secret
			return Answer{}, ctx.Err()
		}
		if p.refused != nil {
			return *p.refused, nil
		}
		a, err := p.run(next)(ctx, operation, body)
		if err == nil {
			r.chargeReads(p.reads, a)
		}
		return a, err
	}
}

// pass is what the rules permit of a call.
type pass struct {
	refused *Answer  // instead of executing the call; nil: it is executed
	holds   []string // items that a transaction holds until it ends
	// run returns the Server that executes the permitted part of the call.
	run func(next Server) Server
	// reads are accesses whose units are known only when they have been read.
	reads []access
}

func whole(next Server) Server { return next }

func refuse(a Answer) *pass { return &pass{refused: &a} }

// Failure is DynamoDB's answer to a call that fails.
func Failure(code, message string) Answer {
	return answerOf(http.StatusBadRequest, map[string]any{"__type": typePrefix + code, "message": message})
}

const typePrefix = "com.amazonaws.dynamodb.v20120810#"

func answerOf(status int, body any) Answer {
	encoded, err := json.Marshal(body)
	if err != nil {
		return Answer{Status: http.StatusInternalServerError, Body: []byte(`{"__type":"InternalServerError"}`)}
	}
	return Answer{Status: status, Body: encoded}
}

// Codes of a cancelled transaction's reasons and of failed statements.
const (
	codeNone      = "None"
	codeThrottled = "ThrottlingError"
	codeConflict  = "TransactionConflict"
)

const (
	messageThrottled = "Throughput exceeds the current capacity of a partition of your table or index"
	messageConflict  = "Transaction is ongoing for the item"
)

// single permits or refuses a call about one item, or a query of one partition. Plain reads never
// conflict; plain writes fail while a transaction holds the item.
func (r *Rules) single(c *call) *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.accessOf(c.operation, c.write, c.ConsistentRead)
	switch code := r.admit(a); {
	case code == codeConflict:
		return refuse(Failure("TransactionConflictException", messageConflict))
	case code != "":
		return refuse(Failure("ThrottlingException", messageThrottled))
	case a.write:
		r.commit(a)
		return &pass{run: whole}
	}
	return &pass{run: whole, reads: []access{a}}
}

// transaction permits or refuses a transaction. Each of its items costs double: it is prepared and
// then committed ("Distributed Transactions at Scale in Amazon DynamoDB", USENIX ATC 2023). One that
// is refused for a conflict has cost what it prepared. AWS does not say what a throttled one costs;
// here it costs nothing, since otherwise large transactions that are repeated leave each other no units
// for long. A transaction conflicts only with others: AWS's pages do not say that a plain write in
// progress would cancel it.
//
// AWS does not say which units a ConditionCheck takes. Here it takes those of a write.
func (r *Rules) transaction(c *call) *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	reasons, codes := make([]map[string]any, len(c.TransactItems)), map[string]bool{}
	p := &pass{run: whole}
	var accesses []access
	for i, it := range c.TransactItems {
		var code string
		for operation, w := range it { // there is one
			a := r.accessOf(operation, w, false)
			if code = r.admit(a); code != codeThrottled {
				accesses = append(accesses, a)
			}
		}
		reasons[i] = map[string]any{"Code": codeNone}
		if code != "" {
			reasons[i], codes[code] = map[string]any{"Code": code, "Message": "refused by the rules"}, true
		}
	}
	if codes[codeThrottled] {
		for _, a := range accesses {
			r.charge(a, []demand{{a.demands[0].bucket, -a.demands[0].units}})
		}
	}
	if len(codes) > 0 {
		return refuse(canceled(reasons))
	}
	for _, a := range accesses {
		p.holds = append(p.holds, a.item)
		r.held[a.item] = true
		r.charge(a, a.demands[:1])
		r.commit(a)
	}
	return p
}

func canceled(reasons []map[string]any) Answer {
	return answerOf(http.StatusBadRequest, map[string]any{
		"__type": typePrefix + "TransactionCanceledException", "CancellationReasons": reasons,
		"Message": "Transaction cancelled, please refer cancellation reasons for specific reasons",
	})
}

func (r *Rules) release(items []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, item := range items {
		delete(r.held, item)
	}
}

// statements permits or refuses each INSERT of a batch.
func (r *Rules) statements(c *call) *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := map[int]StatementError{}
	for i := range c.Statements {
		a := r.accessOf("Put", c.Statements[i].write(), false)
		if code := r.admit(a); code != "" {
			failed[i] = StatementError{Code: code, Message: "refused by the rules"}
			continue
		}
		r.commit(a)
	}
	return &pass{run: func(next Server) Server {
		return func(ctx context.Context, _ string, body []byte) (Answer, error) {
			return RunStatements(ctx, next, body, failed)
		}
	}}
}

// batch permits or refuses each read or write of a batch. Those that are refused are unprocessed. If
// all are, the batch fails. AWS does not say that writes of held items are unprocessed; that they
// fail like other plain writes follows from what it says of single ones.
func (r *Rules) batch(c *call) *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, unprocessed := &pass{}, map[string]batchOfTable{}
	permitted := 0
	for table, b := range c.batches {
		left := b.empty()
		for i := range b.len() {
			operation, w := b.at(table, i)
			a := r.accessOf(operation, w, b.ConsistentRead)
			if r.admit(a) != "" {
				left.take(&b, i)
				continue
			}
			permitted++
			if r.commit(a); !a.write {
				p.reads = append(p.reads, a)
			}
		}
		if left.len() > 0 {
			unprocessed[table] = left
		}
	}
	if permitted == 0 {
		return refuse(Failure("ThrottlingException", messageThrottled))
	}
	p.run = func(next Server) Server {
		return func(ctx context.Context, operation string, body []byte) (Answer, error) {
			return runBatch(ctx, next, operation, body, c.batches, unprocessed)
		}
	}
	return p
}
