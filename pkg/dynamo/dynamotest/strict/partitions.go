package strict

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"
)

// bucket has the units that a partition accepts at present. A partition that was idle accepts up to
// the units of a second at once. AWS lets it burst no higher than its limit either; how evenly a
// second's units are spread is not documented.
type bucket struct {
	units float64 // negative: more was read than there was
	at    time.Time
}

// demand is what an access needs of one bucket.
type demand struct {
	bucket string
	units  float64
}

// access is a read or write of one item, or a query.
type access struct {
	item    string // its table and key; empty: a query
	write   bool
	demands []demand
	moved   map[string]indexKey // by index: where the item will be in it
	factor  float64             // units per 4 KB of a read: 1, or 0.5 of an eventual one
}

// indexKey is where an item is in an index: the index's own key as JSON.
type indexKey struct{ partition, sort string }

// accessOf returns what a read or write needs. The caller holds r.mu.
//
// The sizes are those of the JSON, which are somewhat larger than AWS's. An update's is that of its
// values, since the rules do not know the item: less strict than AWS for large items.
func (r *Rules) accessOf(operation string, w write, consistent bool) access {
	s := r.tables[w.TableName]
	if operation == "Query" {
		partition, _ := w.condition().equal(s.index(w.IndexName).partition)
		return access{factor: factor(consistent && w.IndexName == ""), demands: []demand{{bucket: r.bucketName(w.TableName, w.IndexName, partition, false)}}}
	}
	key := w.Key
	if key == nil {
		key = w.Item
	}
	partition := string(key[s.partition])
	a := access{item: w.TableName + partition + string(key[s.sort])}
	if operation == "GetItem" || operation == "Get" {
		a.factor = factor(consistent)
		a.demands = []demand{{bucket: r.bucketName(w.TableName, "", partition, false)}}
		return a
	}
	a.write = true
	units := math.Ceil(float64(size(w.Item)+size(w.ExpressionAttributeValues)+size(w.Key)) / 1024)
	a.demands = []demand{{r.bucketName(w.TableName, "", partition, true), units}}
	if operation == "ConditionCheck" {
		return a
	}
	before := r.indexed[a.item]
	a.moved = s.indexKeys(operation, w, before)
	for name := range s.indexes {
		old, had := before[name]
		now, has := a.moved[name]
		if has {
			a.demands = append(a.demands, demand{r.bucketName(w.TableName, name, now.partition, true), units})
		}
		if had && old != now { // the old entry is deleted
			a.demands = append(a.demands, demand{r.bucketName(w.TableName, name, old.partition, true), 1})
		}
	}
	return a
}

func factor(consistent bool) float64 {
	if consistent {
		return 1
	}
	return 0.5
}

func size(it item) (bytes int) {
	for name, v := range it {
		bytes += len(name) + len(v)
	}
	return bytes
}

// bucketName names the bucket for the reads or writes of the partition that has a key.
func (r *Rules) bucketName(table, index, key string, write bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s %s", r.limits.Placement, table, index, key))
	return fmt.Sprintf("%s/%s/%d/%t", table, index, binary.BigEndian.Uint64(sum[:8])%uint64(r.limits.Partitions), write) //nolint:gosec // positive
}

// admit takes the units of an access, times over, or none. It returns why the access is refused, and
// "" if it is not. The write of an index is not doubled in a transaction, since AWS makes it later.
// The write of the table waits for it nevertheless, which AWS calls back-pressure. The caller holds
// r.mu.
func (r *Rules) admit(a access, times float64) (code string) {
	need := map[*bucket]float64{}
	limit := readUnits * r.limits.Fraction
	if a.write {
		limit = writeUnits * r.limits.Fraction
	}
	for i, d := range a.demands {
		if i == 0 {
			d.units *= times
		}
		need[r.bucket(d.bucket, limit)] += d.units
	}
	for b, units := range need {
		// One that takes more than a second's units is admitted with a full bucket.
		if b.units < math.Min(units, limit) || b.units <= 0 {
			r.counts.Throttled++
			return codeThrottled
		}
	}
	for b, units := range need {
		b.units -= units
		r.counts.Writes += units // 0 for a read, see chargeReads
	}
	if a.write && r.held[a.item] {
		r.counts.Conflicts++
		return codeConflict
	}
	if a.moved != nil {
		r.indexed[a.item] = a.moved
	}
	return ""
}

// bucket returns a bucket with the units that it has by now. The caller holds r.mu.
func (r *Rules) bucket(name string, limit float64) *bucket {
	b, now := r.buckets[name], time.Now()
	if b == nil {
		b = &bucket{units: limit, at: now}
		r.buckets[name] = b
	}
	b.units = math.Min(limit, b.units+limit*now.Sub(b.at).Seconds())
	b.at = now
	return b
}

// chargeReads takes the units of what was read, which only the answer shows. An access is permitted
// while its partition has any units, so that what was read can be more than what there was; later
// reads wait for that. Here items of a batch share its size evenly.
func (r *Rules) chargeReads(c *call, reads []access, a Answer) {
	if len(reads) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, read := range reads {
		units := read.factor * math.Max(1, math.Ceil(float64(len(a.Body)/len(reads))/4096))
		r.bucket(read.demands[0].bucket, readUnits*r.limits.Fraction).units -= units
		r.counts.Reads += units
	}
}

// schema has the names of a table's or an index's key attributes, and of a table its indexes.
type schema struct {
	partition, sort string
	indexes         map[string]schema
}

func (s schema) index(name string) schema {
	if name == "" {
		return s
	}
	return s.indexes[name]
}

// indexKeys returns where an item is in the indexes after a write; nil: in none.
func (s schema) indexKeys(operation string, w write, before map[string]indexKey) map[string]indexKey {
	switch operation {
	case "Delete", "DeleteItem":
		return map[string]indexKey{}
	case "Update", "UpdateItem":
		after := maps.Clone(before)
		for name, x := range s.indexes {
			k, had := before[name]
			if v, ok := w.assignments().equal(x.partition); ok {
				k.partition, had = v, true
			}
			if v, ok := w.assignments().equal(x.sort); ok {
				k.sort = v
			}
			if had {
				if after == nil {
					after = map[string]indexKey{}
				}
				after[name] = k
			}
		}
		return after
	}
	after := map[string]indexKey{}
	for name, x := range s.indexes {
		if v, ok := w.Item[x.partition]; ok {
			after[name] = indexKey{string(v), string(w.Item[x.sort])}
		}
	}
	return after
}

// learn remembers the keys in a CreateTable.
func (r *Rules) learn(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tables[c.TableName] = schemaOf(c)
}

func (r *Rules) schema(table string) (schema, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.tables[table]
	return s, ok
}

func schemaOf(c *call) schema {
	s := keysOf(c.KeySchema)
	s.indexes = map[string]schema{}
	for _, x := range c.GlobalSecondaryIndexes {
		s.indexes[x.IndexName] = keysOf(x.KeySchema)
	}
	return s
}

func keysOf(elements []keyElement) (s schema) {
	for _, e := range elements {
		if e.KeyType == "HASH" {
			s.partition = e.AttributeName
		} else {
			s.sort = e.AttributeName
		}
	}
	return s
}

// item is an item or a key in DynamoDB's JSON: the typed value by the attribute's name.
type item = map[string]json.RawMessage
