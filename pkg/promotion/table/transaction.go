package table

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

// Shared is the owner of a write that does not belong to a single request.
const Shared = -1

// repeatTries is how many times a transaction is sent, at most, while it conflicts with other
// writes or lacks capacity. The pauses are 5 to 15 ms after the first time, and grow with each.
const repeatTries = 7

// Tx collects the writes of one transaction. With a change of a request it also writes the status
// log and the counts of the event, and with the end of a request the announcement and the deletion
// of the marker. For a lottery request it also writes the entry and the counter of its group, or
// the exclusion; for the successful first-come requests, which must be of one promotion, a list of
// the winners. Each write has an owner: the number that the caller gave to its request. Only a Store
// can make a Tx, since concurrent ones need different slots for the counts.
type Tx struct {
	client *dynamodb.Client
	table  string
	now    int64

	items    []types.TransactWriteItem
	owners   []int
	counts   map[string]*promotion.Counts
	rows     []promotion.Announcement
	won      []promotion.Request // of one first-come promotion, in the order of their places
	outbox   int                 // partition of the announcements; -1: none were written
	statuses []promotion.Status  // that requests enter by this transaction, for the metric
	slots    *figureSlots

	groups     map[entryGroup]*groupChange
	exclusions []exclusionWrite
}

// Len returns the number of writes so far, without the writes of counts and announcements.
func (t *Tx) Len() int { return len(t.items) }

// Owner returns the owner that was given with write i of the transaction.
func (t *Tx) Owner(i int) int {
	if i < 0 || i >= len(t.owners) {
		return Shared
	}
	return t.owners[i]
}

// Condition is a condition on an item that a write requires. The zero value always holds.
type Condition struct {
	Expression string
	Names      map[string]string
	Values     dynamo.Item
}

// Absent is the condition that no item with the key exists.
func Absent() Condition { return Condition{Expression: "attribute_not_exists(" + PK + ")"} }

// Present is the condition that an item with the key exists.
func Present() Condition { return Condition{Expression: "attribute_exists(" + PK + ")"} }

// LockNamesRequest is the condition that a lock has the id of this request.
func LockNamesRequest(requestID string) Condition {
	return Condition{Expression: "requestId = :request", Values: dynamo.Item{":request": dynamo.String(requestID)}}
}

func (c Condition) expression() *string {
	if c.Expression == "" {
		return nil
	}
	return &c.Expression
}

// Put adds the write of a whole item. If the condition fails, the error has the stored item.
func (t *Tx) Put(owner int, it dynamo.Item, c Condition) {
	t.addWrite(owner, types.TransactWriteItem{Put: &types.Put{
		TableName: &t.table, Item: it, ConditionExpression: c.expression(), ExpressionAttributeNames: c.Names, ExpressionAttributeValues: c.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
}

func (t *Tx) Update(owner int, key dynamo.Item, u dynamo.Change, c Condition) {
	names, values := u.Names, u.Values
	maps.Copy(names, c.Names)
	maps.Copy(values, c.Values)
	if len(names) == 0 {
		names = nil // DynamoDB refuses empty maps
	}
	if len(values) == 0 {
		values = nil
	}
	t.addWrite(owner, types.TransactWriteItem{Update: &types.Update{
		TableName: &t.table, Key: key, UpdateExpression: &u.Expression, ConditionExpression: c.expression(),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}})
}

func (t *Tx) Delete(owner int, key dynamo.Item, c Condition) {
	t.addWrite(owner, types.TransactWriteItem{Delete: &types.Delete{
		TableName: &t.table, Key: key, ConditionExpression: c.expression(), ExpressionAttributeNames: c.Names, ExpressionAttributeValues: c.Values,
	}})
}

// Check adds a condition on an item that the transaction does not write.
func (t *Tx) Check(owner int, key dynamo.Item, c Condition) {
	t.addWrite(owner, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &t.table, Key: key, ConditionExpression: c.expression(), ExpressionAttributeNames: c.Names, ExpressionAttributeValues: c.Values,
	}})
}

func (t *Tx) addWrite(owner int, it types.TransactWriteItem) {
	t.items, t.owners = append(t.items, it), append(t.owners, owner)
}

// Create adds a new request, which may have ended already, and all that is written with it.
func (t *Tx) Create(owner int, created promotion.Change) {
	t.Put(owner, RequestItem(&created.After), Absent())
	t.putLog(owner, created)
	t.countsOf(created.After.EventID).Accepted++
	if created.After.Status.Final() {
		t.recordEnd(created)
		if created.After.EventType == promotion.Lottery {
			t.addLotteryWrites(owner, created)
		}
	} else {
		t.putMarker(owner, &created.After)
	}
}

// Settle adds the end of a request like Change. If SettledLog can compute the log, Settle adds a
// single write and returns true: it leaves the log and the marker to Store.FinishSettled, so that
// many requests fit one transaction.
func (t *Tx) Settle(owner int, c promotion.Change) (unfinished bool) {
	if _, unfinished = c.After.SettledLog(); !unfinished {
		t.Change(owner, c)
		return false
	}
	t.updateRequest(owner, c)
	for i := range c.Logs {
		t.statuses = append(t.statuses, c.Logs[i].To)
	}
	t.recordEnd(c)
	return true
}

func (t *Tx) updateRequest(owner int, c promotion.Change) {
	t.Update(owner, RequestKey(c.Before.RequestID), dynamo.Diff(RequestItem(&c.Before), RequestItem(&c.After)), RequestUnchanged(&c.Before))
}

// Change adds a step of a request and all that is written with it. It requires that nobody has
// changed the request since it was read.
func (t *Tx) Change(owner int, c promotion.Change) {
	t.updateRequest(owner, c)
	t.putLog(owner, c)
	switch ended := c.After.Status.Final(); {
	case ended && !c.Before.Status.Final():
		t.recordEnd(c)
		t.deleteMarker(owner, &c.Before)
	case !ended && c.Before.Status.Final():
		t.countsOf(c.Before.EventID).Add(c.Before.ResultCode, -1)
	}
	if c.After.EventType == promotion.Lottery {
		t.addLotteryWrites(owner, c)
	}
	if c.After.Gen != c.Before.Gen { // its message is not in the queue yet
		if !c.Before.Status.Final() {
			t.deleteMarker(owner, &c.Before)
		}
		t.putMarker(owner, &c.After)
	}
}

func (t *Tx) putMarker(owner int, r *promotion.Request) {
	m := promotion.MarkerOf(r, t.now)
	t.Put(owner, MarkerItem(&m), Condition{})
}

// deleteMarker deletes the marker of a request; an entry of a lottery has no marker.
func (t *Tx) deleteMarker(owner int, r *promotion.Request) {
	if r.EnteredAt == 0 {
		m := promotion.MarkerOf(r, 0)
		t.Delete(owner, MarkerKey(&m), Condition{})
	}
}

func (t *Tx) putLog(owner int, c promotion.Change) {
	for i := range c.Logs {
		t.Put(owner, LogItem(&c.Logs[i]), Condition{})
		t.statuses = append(t.statuses, c.Logs[i].To)
	}
}

func (t *Tx) recordEnd(c promotion.Change) {
	t.countsOf(c.After.EventID).Add(c.After.ResultCode, 1)
	t.rows = append(t.rows, promotion.AnnouncementOf(&c.After))
	if c.After.Place != 0 {
		t.won = append(t.won, c.After)
	}
}

func (t *Tx) countsOf(event string) *promotion.Counts {
	c := t.counts[event]
	if c == nil {
		c = &promotion.Counts{}
		t.counts[event] = c
	}
	return c
}

// Commit writes everything or nothing. It waits until it has a slot for the counts of each event, at
// most until ctx ends. It tries again when only conflicts with other writes, or a lack of capacity,
// prevented it. Otherwise a cancelled transaction is a dynamo.CanceledError.
func (t *Tx) Commit(ctx context.Context) error {
	if len(t.rows) > 0 {
		var it dynamo.Item
		it, t.outbox = NewOutbox(t.now, t.rows)
		t.Put(Shared, it, Condition{})
	}
	if len(t.won) > 0 {
		t.Put(Shared, WinnersItem(t.won), Condition{})
	}
	slots, release, err := t.slots.reserve(ctx, slices.Collect(maps.Keys(t.counts)))
	if err != nil {
		return err
	}
	defer release()
	fixed := len(t.items)
	for try := 1; ; try++ {
		t.items, t.owners = t.items[:fixed], t.owners[:fixed]
		for event, c := range t.counts {
			t.Update(Shared, CountsKey(event, slots[event]), CountsUpdate(c), Condition{})
		}
		t.writeGroupCounters()
		checks := t.addExclusions()
		_, err := t.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: t.items})
		if err == nil {
			for _, s := range t.statuses {
				requestsTotal.WithLabelValues(string(s)).Inc()
			}
			return nil
		}
		canceled, ok := dynamo.Canceled(err)
		if !ok {
			return dynamo.Err(err)
		}
		if t.dropExclusions(canceled, checks) {
			continue
		}
		if again := canceled.ConflictsOnly() || dynamo.Throttled(canceled); !again || try == repeatTries || !pause(ctx, try) {
			return dynamo.Err(canceled)
		}
	}
}

// Outbox returns the partition of the announcements that Commit wrote; ok is false without any.
func (t *Tx) Outbox() (partition int, ok bool) { return t.outbox, t.outbox >= 0 }

// pause waits about as long as other transactions take, so that those that collided do not collide
// again. It returns false when ctx has ended.
func pause(ctx context.Context, try int) bool {
	return loop.Sleep(ctx, time.Duration(try)*(5*time.Millisecond+rand.N(10*time.Millisecond))) //nolint:gosec // jitter
}

// Failed returns the owners of the writes whose condition did not hold.
func (t *Tx) Failed(err error) map[int]bool {
	canceled, ok := dynamo.Canceled(err)
	if !ok {
		return nil
	}
	failed := map[int]bool{}
	for i := range canceled.Reasons {
		if canceled.Failed(i) {
			failed[t.Owner(i)] = true
		}
	}
	return failed
}
