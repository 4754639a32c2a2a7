package strict

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// write has the members of a call, or of an entry of a transaction, that name an item.
type write struct {
	TableName                           string
	Key, Item                           item
	IndexName                           string
	KeyConditionExpression              string
	FilterExpression                    string
	ConditionExpression                 string
	UpdateExpression                    string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           item
	ReturnValuesOnConditionCheckFailure string
}

// key returns the key, or the item that contains it.
func (w *write) key() item {
	if w.Key != nil {
		return w.Key
	}
	return w.Item
}

type keyElement struct{ AttributeName, KeyType string }

// call is a call of any operation that the rules or Memory know.
type call struct {
	operation string
	write
	tableKeys
	ConsistentRead    bool
	ReturnValues      string
	ScanIndexForward  *bool
	Limit             int
	ExclusiveStartKey item
	TransactItems     []map[string]write
	Statements        []statement
	RequestItems      json.RawMessage

	batches map[string]batchOfTable // from RequestItems
}

func parse(operation string, body []byte) (call, error) {
	c := call{operation: operation}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("%s: %w", operation, err)
	}
	switch operation {
	case "BatchGetItem":
		if err := json.Unmarshal(c.RequestItems, &c.batches); err != nil {
			return c, fmt.Errorf("%s: %w", operation, err)
		}
	case "BatchWriteItem":
		var writes map[string][]map[string]write
		if err := json.Unmarshal(c.RequestItems, &writes); err != nil {
			return c, fmt.Errorf("%s: %w", operation, err)
		}
		c.batches = map[string]batchOfTable{}
		for table, w := range writes {
			c.batches[table] = batchOfTable{writes: w}
		}
	}
	return c, nil
}

// tables returns the names of the tables whose items a call reads or writes.
func (c *call) tables() (names []string) {
	switch c.operation {
	case "TransactWriteItems":
		for _, it := range c.TransactItems {
			for _, w := range it {
				names = append(names, w.TableName)
			}
		}
	case batchStatements:
		for _, s := range c.Statements {
			names = append(names, s.write().TableName)
		}
	case "BatchGetItem", "BatchWriteItem":
		return slices.Collect(maps.Keys(c.batches))
	default:
		return []string{c.TableName}
	}
	return names
}

// batchOfTable is what a batch reads or writes of one table.
type batchOfTable struct {
	Keys                     []item
	ConsistentRead           bool              `json:",omitempty"`
	ProjectionExpression     string            `json:",omitempty"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`

	writes []map[string]write // {"PutRequest": {"Item": …}} or {"DeleteRequest": {"Key": …}}
}

func (b *batchOfTable) len() int { return max(len(b.Keys), len(b.writes)) }

// at returns the operation and the item of read or write i.
func (b *batchOfTable) at(table string, i int) (operation string, w write) {
	if b.Keys != nil {
		return "Get", write{TableName: table, Key: b.Keys[i]}
	}
	for name, w := range b.writes[i] { // there is one
		w.TableName = table
		return strings.TrimSuffix(name, "Request"), w
	}
	return "", write{TableName: table}
}

// empty returns the batch without its reads and writes.
func (b *batchOfTable) empty() batchOfTable {
	e := *b
	e.Keys, e.writes = nil, nil
	return e
}

// take appends read or write i of another batch.
func (b *batchOfTable) take(from *batchOfTable, i int) {
	if from.Keys != nil {
		b.Keys = append(b.Keys, from.Keys[i])
		return
	}
	b.writes = append(b.writes, from.writes[i])
}

// encode makes the member of RequestItems for a table.
func (b *batchOfTable) encode() any {
	if b.Keys != nil {
		return b
	}
	entries := make([]map[string]map[string]item, len(b.writes))
	for i, w := range b.writes {
		for name, w := range w {
			if entries[i] = map[string]map[string]item{name: {"Key": w.Key}}; w.Key == nil {
				entries[i] = map[string]map[string]item{name: {"Item": w.Item}}
			}
		}
	}
	return entries
}

// runBatch executes a batch without the reads and writes that are to stay unprocessed.
func runBatch(ctx context.Context, next Server, operation string, body []byte, all, unprocessed map[string]batchOfTable) (Answer, error) {
	if len(unprocessed) == 0 {
		return next(ctx, operation, body)
	}
	member := map[string]string{"BatchGetItem": "UnprocessedKeys", "BatchWriteItem": "UnprocessedItems"}[operation]
	requests, left := map[string]any{}, map[string]any{}
	for table, b := range all {
		permitted, refused := b.empty(), unprocessed[table]
		if refused.len() > 0 {
			left[table] = refused.encode()
		}
		for i := range b.len() {
			if !refused.contains(&b, i) {
				permitted.take(&b, i)
			}
		}
		if permitted.len() > 0 {
			requests[table] = permitted.encode()
		}
	}
	a, err := next(ctx, operation, answerOf(http.StatusOK, map[string]any{"RequestItems": requests}).Body)
	if err != nil || a.Status != http.StatusOK {
		return a, err
	}
	var out map[string]any
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return Answer{}, fmt.Errorf("batch: %w", err)
	}
	out[member] = left
	return answerOf(http.StatusOK, out), nil
}

// contains reports whether b has read or write i of another batch, whose keys are unique.
func (b *batchOfTable) contains(of *batchOfTable, i int) bool {
	_, searched := of.at("", i)
	for n := range b.len() {
		if _, w := b.at("", n); sameItem(w.Key, searched.Key) && sameItem(w.Item, searched.Item) {
			return true
		}
	}
	return false
}

func sameItem(a, b item) bool {
	return maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// batchStatements is the operation whose statements can fail one by one.
const batchStatements = "BatchExecuteStatement"

type statement struct {
	Statement  string
	Parameters []json.RawMessage
}

// insert is the PartiQL that pkg/dynamo uses: INSERT INTO "table" VALUE {'name': ?, …}.
var insert = regexp.MustCompile(`^INSERT INTO "([^"]+)" VALUE \{(.*)\}$`)

// write returns the item that an INSERT stores; another statement gives the zero value.
func (s statement) write() (w write) {
	found := insert.FindStringSubmatch(s.Statement)
	if found == nil {
		return w
	}
	w.TableName, w.Item = found[1], item{}
	for i, member := range strings.Split(found[2], ", ") {
		name, _, _ := strings.Cut(member, ":")
		if i < len(s.Parameters) {
			w.Item[strings.Trim(name, "' ")] = s.Parameters[i]
		}
	}
	return w
}

// StatementError is the error of one statement of a BatchExecuteStatement.
type StatementError struct {
	Code, Message string
	// Executed: the statement is executed, although the caller gets the error.
	Executed bool `json:"-"`
}

// RunStatements executes a BatchExecuteStatement without the statements that fail, by their index.
// The answer has their errors, and the responses of the others.
func RunStatements(ctx context.Context, next Server, body []byte, failed map[int]StatementError) (Answer, error) {
	if len(failed) == 0 {
		return next(ctx, batchStatements, body)
	}
	var in, passedOn struct{ Statements []json.RawMessage }
	if err := json.Unmarshal(body, &in); err != nil {
		return Answer{}, fmt.Errorf("statements: %w", err)
	}
	for i, s := range in.Statements {
		if f, fails := failed[i]; !fails || f.Executed {
			passedOn.Statements = append(passedOn.Statements, s)
		}
	}
	var got struct{ Responses []json.RawMessage }
	if len(passedOn.Statements) > 0 {
		a, err := next(ctx, batchStatements, answerOf(http.StatusOK, passedOn).Body)
		if err != nil || a.Status != http.StatusOK {
			return a, err
		}
		if err := json.Unmarshal(a.Body, &got); err != nil {
			return Answer{}, fmt.Errorf("statements: %w", err)
		}
		if len(got.Responses) != len(passedOn.Statements) {
			return Answer{}, fmt.Errorf("%d statements have %d responses", len(passedOn.Statements), len(got.Responses))
		}
	}
	responses := make([]any, len(in.Statements))
	for i := range responses {
		f, fails := failed[i]
		if fails {
			responses[i] = map[string]any{"Error": f}
		} else {
			responses[i] = got.Responses[0]
		}
		if !fails || f.Executed {
			got.Responses = got.Responses[1:]
		}
	}
	return answerOf(http.StatusOK, map[string]any{"Responses": responses}), nil
}

// equals is a text of the form `a = :b`, in conditions and in updates.
var equals = regexp.MustCompile(`(#?\w+)\s*=\s*(:\w+)`)

// equalities are the values, as JSON, that an expression compares with attributes or assigns.
type equalities map[string]string

func (w write) condition() equalities   { return w.equalities(w.KeyConditionExpression) }
func (w write) assignments() equalities { return w.equalities(w.UpdateExpression) }

func (w write) equalities(expression string) equalities {
	out := equalities{}
	for _, found := range equals.FindAllStringSubmatch(expression, -1) {
		out[cmp.Or(w.ExpressionAttributeNames[found[1]], found[1])] = string(w.ExpressionAttributeValues[found[2]])
	}
	return out
}

func (e equalities) equal(attribute string) (value string, ok bool) {
	value, ok = e[attribute]
	return value, ok
}
