package kafka

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hashSpace is the number of possible hashes. With this many partitions, the partition of a key is
// its hash: murmur2 without the sign bit.
const hashSpace = 1 << 31

// KeyHash returns Kafka's hash of a key: in a topic with n partitions the key is in partition
// KeyHash(key) % n. The library's own partitioner computes it, so producers choose the same.
func KeyHash(key []byte) int32 {
	p := partitioners.Get().(kgo.TopicPartitioner) //nolint:forcetypeassert // the pool's only type
	defer partitioners.Put(p)
	return int32(p.Partition(&kgo.Record{Key: key}, hashSpace)) //nolint:gosec // below 2^31
}

// partitioners are reused, because making one takes long: it seeds a random number generator.
//
//nolint:gochecknoglobals // a pool of equal values
var partitioners = sync.Pool{New: func() any { return kgo.StickyKeyPartitioner(nil).ForTopic("") }}

// partitionCounts records how many partitions a producer last saw, by the topic's full name.
type partitionCounts struct{ byTopic sync.Map }

// partitioner chooses the partition of a record as Kafka's Java client does, and records how many
// partitions the topic has.
func (c *partitionCounts) partitioner() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			if lastCount, ok := c.byTopic.Load(topic); !ok || lastCount != n {
				c.byTopic.Store(topic, n)
			}
			if r.Key == nil {
				return rand.IntN(n) //nolint:gosec // records without a key have no order
			}
			return int(KeyHash(r.Key)) % n
		}
	})
}

// Partitions returns how many partitions a topic had at the last publish; 0 before the first one.
func (p *Producer) Partitions(topic string) int {
	n, _ := p.partitions.byTopic.Load(p.cfg.prefixedTopic(topic))
	count, _ := n.(int)
	return count
}

// refusalErrors are the errors of a broker that the record itself causes, so that no retry helps.
var refusalErrors = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat,
}

// Refused reports whether the broker will never accept the record, or another record of the same
// batch. A missing topic or permission is not a refusal: an operator may fix it.
func Refused(err error) bool {
	return slices.ContainsFunc(refusalErrors, func(refusal error) bool { return errors.Is(err, refusal) })
}
