package kafka

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hashSpace is the number of partitions at which a key's partition is its hash: murmur2 without the
// sign bit.
const hashSpace = 1 << 31

// KeyHash is Kafka's hash of a key: a topic with n partitions has the key in partition KeyHash(key)
// % n. It is taken from the library's own partitioner, so that it cannot differ from where
// producers send.
func KeyHash(key []byte) int32 {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return int32(p.Partition(&kgo.Record{Key: key}, hashSpace)) //nolint:gosec // below 2^31
}

// partitionCounts are the numbers of partitions among which a producer has chosen, by topic as the
// broker names it.
type partitionCounts struct{ byTopic sync.Map }

// partitioner places keys as every Kafka client does, and remembers among how many partitions it
// chose.
func (c *partitionCounts) partitioner() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			if known, ok := c.byTopic.Load(topic); !ok || known != n {
				c.byTopic.Store(topic, n)
			}
			if r.Key == nil {
				return rand.IntN(n) //nolint:gosec // spreads what has no order
			}
			return int(KeyHash(r.Key)) % n
		}
	})
}

// Partitions is among how many partitions the producer last chose for a record of the topic; 0
// before it has reached the topic.
func (p *Producer) Partitions(topic string) int {
	n, _ := p.partitions.byTopic.Load(p.cfg.topic(topic))
	count, _ := n.(int)
	return count
}

// refusals are the answers of a broker that no repetition changes: there is something about the
// record itself.
var refusals = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat,
}

// Refused reports whether the broker will never take the record, or one of those that were sent in
// a batch with it. A topic that is missing or may not be written to is no refusal: somebody may see
// to it.
func Refused(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
