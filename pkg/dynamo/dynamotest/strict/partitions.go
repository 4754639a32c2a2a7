package strict

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
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
	item    string // its table and key; empty: a read
	write   bool
	demands []demand
	moved   map[string]indexKey // by index: where the item will be in it
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
		return r.read(w.TableName, w.IndexName, partition, consistent)
	}
	partition := string(w.key()[s.partition])
	if operation == "GetItem" || operation == "Get" {
		return r.read(w.TableName, "", partition, consistent)
	}
	a := access{item: s.itemID(&w), write: true}
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

// read returns what reading 4 KB of a partition needs: half of it when reads may be eventual.
func (r *Rules) read(table, index, partition string, consistent bool) access {
	units := 1.0
	if !consistent {
		units = 0.5
	}
	return access{demands: []demand{{r.bucketName(table, index, partition, false), units}}}
}

func size(it item) (bytes int) {
	for name, v := range it {
		bytes += len(name) + len(v)
	}
	return bytes
}

// bucketName names the bucket for the reads or writes of the partition that has a key, as JSON.
func (r *Rules) bucketName(table, index, key string, write bool) string {
	return fmt.Sprintf("%s/%s/%d/%t", table, index, r.limits.partition(table, index, key), write)
}

// Partition returns the number, from 0, of the partition of a table or of an index that has a key of
// type S.
func (r *Rules) Partition(table, index, key string) int {
	return r.limits.partition(table, index, `{"S":"`+key+`"}`)
}

func (l Limits) partition(table, index, key string) int {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s %s", l.Placement, table, index, key))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(l.Partitions)) //nolint:gosec // few partitions
}

// admit takes the units that an access needs of the table, or none. It returns why the access is
// refused, and "" if it is not. A write waits for the indexes too, which AWS calls back-pressure;
// their units are taken by commit. The caller holds r.mu.
func (r *Rules) admit(a access) (code string) {
	limit := r.limit(a)
	need := map[*bucket]float64{}
	for _, d := range a.demands {
		need[r.bucket(d.bucket, limit)] += d.units
	}
	for b, units := range need {
		// One that takes more than a second's units is admitted with a full bucket.
		if b.units < math.Min(units, limit) {
			r.counts.Throttled++
			return codeThrottled
		}
	}
	r.charge(a, a.demands[:1])
	if a.write && r.held[a.item] {
		r.counts.Conflicts++
		return codeConflict
	}
	return ""
}

// limit returns the units a second of the partitions that an access needs.
func (r *Rules) limit(a access) float64 {
	if a.write {
		return writeUnits * r.limits.Fraction
	}
	return readUnits * r.limits.Fraction
}

// charge takes units although there may be fewer; later accesses then wait for that.
func (r *Rules) charge(a access, demands []demand) {
	for _, d := range demands {
		r.bucket(d.bucket, r.limit(a)).units -= d.units
		if a.write {
			r.counts.Writes += d.units
		} else {
			r.counts.Reads += d.units
		}
	}
}

// commit takes the units of the indexes for an admitted write, and remembers where it puts the item
// in them, although its condition may fail. The caller holds r.mu.
func (r *Rules) commit(a access) {
	r.charge(a, a.demands[1:])
	switch {
	case len(a.moved) > 0:
		r.indexed[a.item] = a.moved
	case a.write && a.moved != nil:
		delete(r.indexed, a.item)
	}
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

// chargeReads takes the units of what was read beyond 4 KB, which only the answer shows. So more can
// be read than there was, and later reads wait for that. Items of a batch share its size evenly.
func (r *Rules) chargeReads(reads []access, a Answer) {
	if len(reads) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, read := range reads {
		d := read.demands[0]
		d.units *= math.Max(0, math.Ceil(float64(len(a.Body)/len(reads))/4096)-1)
		r.charge(read, []demand{d})
	}
}

// schema has the names of a table's or an index's key attributes, and of a table its indexes.
type schema struct {
	partition, sort string
	indexes         map[string]schema
}

// itemID identifies the item of a write among those of all tables.
func (s schema) itemID(w *write) string {
	return w.TableName + string(w.key()[s.partition]) + string(w.key()[s.sort])
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

// learn asks for the keys of a table, unless they are known. The answer is of next if it fails.
func (r *Rules) learn(ctx context.Context, next Server, name string) (Answer, error) {
	r.mu.Lock()
	_, known := r.tables[name]
	r.mu.Unlock()
	if known {
		return Answer{Status: http.StatusOK}, nil
	}
	a, err := next(ctx, "DescribeTable", answerOf(http.StatusOK, map[string]string{"TableName": name}).Body)
	if err != nil || a.Status != http.StatusOK {
		return a, err
	}
	var out struct{ Table tableKeys }
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return a, fmt.Errorf("keys of %s: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tables[name] = out.Table.schema()
	return a, nil
}

// tableKeys are the members of CreateTable, and of the answer to DescribeTable, that name keys.
type tableKeys struct {
	KeySchema              []keyElement
	GlobalSecondaryIndexes []struct {
		IndexName string
		KeySchema []keyElement
	}
}

func (k tableKeys) schema() schema {
	s := keysOf(k.KeySchema)
	s.indexes = map[string]schema{}
	for _, x := range k.GlobalSecondaryIndexes {
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
