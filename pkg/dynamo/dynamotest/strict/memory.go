package strict

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"urr.guru/pkg/dynamo"
)

// Memory is a DynamoDB in memory, for tests that need no server. It has the calls and expressions
// that this repository uses, and never deletes expired items. A query of an index goes through all
// items of the table.
type Memory struct {
	mu     sync.Mutex
	tables map[string]*tableInMemory
}

type tableInMemory struct {
	keys   tableKeys
	schema schema
	// items has the items by the JSON of their partition key, then by that of their sort key.
	items map[string]map[string]item
}

// NewMemory makes a DynamoDB without tables.
func NewMemory() *Memory { return &Memory{tables: map[string]*tableInMemory{}} }

// Serve is a Server.
func (m *Memory) Serve(_ context.Context, operation string, body []byte) (a Answer, err error) {
	c, err := parse(operation, body)
	if err != nil {
		return Failure("SerializationException", err.Error()), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		if why := recover(); why != nil {
			text, ok := why.(invalid)
			if !ok {
				panic(why)
			}
			a = Failure("ValidationException", string(text))
		}
	}()
	execute, ok := map[string]func(*call) Answer{
		"CreateTable": m.createTable, "DescribeTable": m.describeTable, "DescribeTimeToLive": done, "UpdateTimeToLive": done,
		"PutItem": m.writeItem, "UpdateItem": m.writeItem, "DeleteItem": m.writeItem, "GetItem": m.getItem, "Query": m.query,
		"BatchGetItem": m.batchGet, "BatchWriteItem": m.batchWrite, batchStatements: m.insertAll, "TransactWriteItems": m.transact,
	}[operation]
	if !ok {
		return Failure("UnknownOperationException", operation), nil
	}
	return execute(&c), nil
}

func done(*call) Answer { return answerOf(http.StatusOK, struct{}{}) }

func (m *Memory) createTable(c *call) Answer {
	if m.tables[c.TableName] != nil {
		return Failure("ResourceInUseException", "Table already exists: "+c.TableName)
	}
	m.tables[c.TableName] = &tableInMemory{keys: c.tableKeys, schema: c.schema(), items: map[string]map[string]item{}}
	return done(c)
}

func (m *Memory) describeTable(c *call) Answer {
	t := m.tables[m.table(c.TableName)]
	return answerOf(http.StatusOK, map[string]any{"Table": map[string]any{
		"TableName": c.TableName, "TableStatus": "ACTIVE", "KeySchema": t.keys.KeySchema, "GlobalSecondaryIndexes": t.keys.GlobalSecondaryIndexes,
	}})
}

// table returns the name of a table that exists.
func (m *Memory) table(name string) string {
	if m.tables[name] == nil {
		panic(invalid("no table " + name))
	}
	return name
}

// get returns the stored item with a key, or with the key of an item; nil if there is none.
func (m *Memory) get(table string, key item) item {
	t := m.tables[m.table(table)]
	return t.items[string(key[t.schema.partition])][string(key[t.schema.sort])]
}

// prepare returns an item before and after a write, which is not made yet. ok is false if the
// condition does not hold.
func (m *Memory) prepare(operation string, w *write) (before, after item, ok bool) {
	before = m.get(w.TableName, w.key())
	if !w.on(w.ConditionExpression, before).holds() {
		return before, before, false
	}
	switch strings.TrimSuffix(operation, "Item") {
	case "Put":
		return before, w.Item, true
	case "Update":
		after = maps.Clone(w.key())
		maps.Copy(after, before)
		w.on(w.UpdateExpression, before).update(after)
		return before, after, true
	case "ConditionCheck":
		return before, before, true
	}
	return before, nil, true
}

// store makes a write that prepare has returned.
func (m *Memory) store(table string, before, after item) {
	t := m.tables[table]
	switch {
	case after != nil:
		partition := string(after[t.schema.partition])
		if t.items[partition] == nil {
			t.items[partition] = map[string]item{}
		}
		t.items[partition][string(after[t.schema.sort])] = after
	case before != nil:
		delete(t.items[string(before[t.schema.partition])], string(before[t.schema.sort]))
	}
}

func (m *Memory) writeItem(c *call) Answer {
	before, after, ok := m.prepare(c.operation, &c.write)
	if !ok {
		failed := map[string]any{"__type": typePrefix + "ConditionalCheckFailedException", "message": "The conditional request failed"}
		if c.ReturnValuesOnConditionCheckFailure == "ALL_OLD" && before != nil {
			failed["Item"] = before
		}
		return answerOf(http.StatusBadRequest, failed)
	}
	m.store(c.TableName, before, after)
	switch c.ReturnValues {
	case "ALL_OLD", "UPDATED_OLD":
		return answerOf(http.StatusOK, map[string]item{"Attributes": before})
	case "ALL_NEW", "UPDATED_NEW": // here always all
		return answerOf(http.StatusOK, map[string]item{"Attributes": after})
	}
	return done(c)
}

func (m *Memory) getItem(c *call) Answer {
	if it := m.get(c.TableName, c.Key); it != nil {
		return answerOf(http.StatusOK, map[string]item{"Item": it})
	}
	return done(c)
}

func (m *Memory) batchGet(c *call) Answer {
	found := map[string][]item{}
	for table, b := range c.batches {
		found[table] = []item{}
		for _, key := range b.Keys {
			if it := m.get(table, key); it != nil {
				found[table] = append(found[table], it)
			}
		}
	}
	return answerOf(http.StatusOK, map[string]any{"Responses": found, "UnprocessedKeys": struct{}{}})
}

func (m *Memory) batchWrite(c *call) Answer {
	for table, b := range c.batches {
		for i := range b.writes {
			operation, w := b.at(table, i)
			before, after, _ := m.prepare(operation, &w)
			m.store(table, before, after)
		}
	}
	return answerOf(http.StatusOK, map[string]any{"UnprocessedItems": struct{}{}})
}

func (m *Memory) insertAll(c *call) Answer {
	responses := make([]map[string]any, len(c.Statements))
	for i, s := range c.Statements {
		w := s.write()
		if m.get(w.TableName, w.Item) != nil {
			responses[i] = map[string]any{"Error": StatementError{Code: "DuplicateItem", Message: "Duplicate primary key exists in table"}}
			continue
		}
		responses[i] = map[string]any{"TableName": w.TableName}
		m.store(w.TableName, nil, w.Item)
	}
	return answerOf(http.StatusOK, map[string]any{"Responses": responses})
}

func (m *Memory) transact(c *call) Answer {
	type change struct {
		table         string
		before, after item
	}
	var changes []change
	seen := map[string]bool{}
	reasons, refused := make([]map[string]any, len(c.TransactItems)), false
	for i, it := range c.TransactItems {
		for operation, w := range it { // there is one
			before, after, ok := m.prepare(operation, &w)
			seen[m.tables[w.TableName].schema.itemID(&w)] = true
			changes = append(changes, change{w.TableName, before, after})
			if reasons[i] = map[string]any{"Code": codeNone}; ok {
				continue
			}
			refused = true
			reasons[i] = map[string]any{"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
			if w.ReturnValuesOnConditionCheckFailure == "ALL_OLD" && before != nil {
				reasons[i]["Item"] = before
			}
		}
	}
	switch {
	case len(c.TransactItems) > dynamo.MaxTransaction:
		return Failure("ValidationException", "a transaction has too many items")
	case len(seen) < len(c.TransactItems):
		return Failure("ValidationException", "a transaction has several operations on one item")
	case refused:
		return canceled(reasons)
	}
	for _, c := range changes {
		m.store(c.table, c.before, c.after)
	}
	return done(c)
}

func (m *Memory) query(c *call) Answer {
	t := m.tables[m.table(c.TableName)]
	keys := t.schema.index(c.IndexName)
	var found []item
	for partition, items := range t.items {
		if want, ok := c.condition().equal(keys.partition); c.IndexName == "" && ok && want != partition {
			continue
		}
		for _, it := range items {
			if it[keys.partition] != nil && c.on(c.KeyConditionExpression, it).holds() {
				found = append(found, it)
			}
		}
	}
	// The items of an index with the same key are in the order of the table's.
	order := []string{keys.sort, t.schema.partition, t.schema.sort}
	slices.SortFunc(found, func(a, b item) int { return compareBy(order, a, b) })
	if c.ScanIndexForward != nil && !*c.ScanIndexForward {
		slices.Reverse(found)
	}
	if c.ExclusiveStartKey != nil {
		last := slices.IndexFunc(found, func(it item) bool { return compareBy(order, it, c.ExclusiveStartKey) == 0 })
		found = found[last+1:]
	}
	out := map[string]any{}
	if c.Limit > 0 && len(found) >= c.Limit { // there may be no more, as at AWS
		found = found[:c.Limit]
		last := item{}
		for _, name := range append(order, keys.partition) {
			if v := found[c.Limit-1][name]; v != nil {
				last[name] = v
			}
		}
		out["LastEvaluatedKey"] = last
	}
	found = slices.DeleteFunc(found, func(it item) bool { return !c.on(c.FilterExpression, it).holds() })
	out["Items"], out["Count"] = append([]item{}, found...), len(found)
	return answerOf(http.StatusOK, out)
}

func compareBy(names []string, a, b item) int {
	for _, name := range names {
		if compare(a[name], b[name], "<") {
			return -1
		}
		if compare(b[name], a[name], "<") {
			return 1
		}
	}
	return 0
}
