package table

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// entryGroup identifies a group of a lottery's requests.
type entryGroup struct{ event, group string }

// groupChange is the change of a group's counter: entries is added, sentAt is set.
type groupChange struct{ entries, sentAt int64 }

// exclusionWrite is a write to the list of a lottery's excluded requests, and the condition on
// another item that it requires.
type exclusionWrite struct {
	owner int
	item  types.TransactWriteItem

	key      dynamo.Item
	required Condition
}

// addLotteryWrites adds the writes of the entry, the group's counter and the exclusion that follow
// from a change of a lottery request.
func (t *Tx) addLotteryWrites(owner int, c promotion.Change) {
	before, after := &c.Before, &c.After
	switch {
	case before.EnteredAt == 0 && after.EnteredAt != 0:
		e := promotion.Entry{EventID: after.EventID, RequestID: after.RequestID, EnteredAt: after.EnteredAt, EndsAt: after.EndsAt}
		t.Put(owner, EntryItem(&e), Absent())
		t.deleteMarker(owner, before)
		t.groupChangeOf(after).entries++
		t.countsOf(after.EventID).Entered++
	case before.EnteredAt != 0 && after.EnteredAt == 0:
		t.Delete(owner, Key(EntryPartition(after.EventID, promotion.LotteryGroup(after.RequestID)), after.RequestID), Present())
		t.groupChangeOf(after).entries--
		t.countsOf(after.EventID).Entered--
	case before.EnteredAt != 0 && after.Status.Final() && !before.Status.Final():
		t.countsOf(after.EventID).Entered--
	}
	key := Key(ExclusionPartition(after.EventID), after.RequestID)
	switch {
	case after.EnteredAt != 0:
	case after.Status.Final():
		e := promotion.Exclusion{EventID: after.EventID, RequestID: after.RequestID, Reason: after.ResultCode, At: after.StatusAt, EndsAt: after.EndsAt}
		t.exclusions = append(t.exclusions, exclusionWrite{
			owner, types.TransactWriteItem{Put: &types.Put{TableName: &t.table, Item: ExclusionItem(&e)}}, DrawKey(after.EventID), Absent(),
		})
	case before.Status.Final(): // redriven: included again, unless its group is closed, since it can then only be late
		t.exclusions = append(t.exclusions, exclusionWrite{
			owner, types.TransactWriteItem{Delete: &types.Delete{TableName: &t.table, Key: key}},
			EntryCounterKey(after.EventID, promotion.LotteryGroup(after.RequestID)), entryCounterOpen(),
		})
	}
}

func (t *Tx) groupChangeOf(r *promotion.Request) *groupChange {
	key := entryGroup{r.EventID, promotion.LotteryGroup(r.RequestID)}
	g := t.groups[key]
	if g == nil {
		g = &groupChange{}
		t.groups[key] = g
	}
	return g
}

// SetSentAt stores, in the counter of the group of r, when the queue received the latest message of
// the group that workers have processed.
func (t *Tx) SetSentAt(r *promotion.Request, at int64) { t.groupChangeOf(r).sentAt = at }

// writeGroupCounters adds the updates of the groups' counters. The number of entries changes only
// while the group is open.
func (t *Tx) writeGroupCounters() {
	for key, g := range t.groups {
		open := Condition{}
		if g.entries != 0 {
			open = entryCounterOpen()
		}
		t.Update(Shared, EntryCounterKey(key.event, key.group), entryCounterUpdate(g.entries, g.sentAt), open)
	}
}

// addExclusions adds the writes of exclusions with their checks: that the draw has no item yet, or,
// for a deletion, that the group is open. It returns the checked keys by the index of the check.
func (t *Tx) addExclusions() map[int]string {
	checks := map[int]string{}
	checked := map[string]bool{}
	for _, e := range t.exclusions {
		if name := keyText(e.key); !checked[name] {
			checked[name] = true
			checks[len(t.items)] = name
			t.Check(Shared, e.key, e.required)
		}
		t.addWrite(e.owner, e.item)
	}
	return checks
}

// dropExclusions removes the exclusions whose check failed, since it would fail again. It reports
// whether only these checks cancelled the transaction, which is then to be sent again.
func (t *Tx) dropExclusions(canceled *dynamo.CanceledError, checks map[int]string) bool {
	final := map[string]bool{}
	for i := range canceled.Reasons {
		name, isCheck := checks[i]
		switch {
		case isCheck && canceled.Failed(i):
			final[name] = true
		case canceled.Failed(i):
			return false
		}
	}
	if _, invalid := canceled.FirstInvalid(); invalid || len(final) == 0 {
		return false
	}
	t.exclusions = slices.DeleteFunc(t.exclusions, func(e exclusionWrite) bool { return final[keyText(e.key)] })
	return true
}
