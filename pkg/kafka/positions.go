package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Positions stores how far a service has read each partition, in the same transactions as the
// effects of the records. A database that was restored to an earlier state, or a standby that lost
// the last transactions, is behind the offsets that the group has committed. The records in between
// must then be read again.
type Positions interface {
	// Load returns the offset after the last record whose effect is stored, by partition. A partition
	// without an offset is read from its start.
	Load(ctx context.Context, topic string) (Offsets, error)
	// Save stores the offset after a record that has no effect, since it went to the dead-letter
	// topic. It never lowers an offset.
	Save(ctx context.Context, topic string, partition int32, next int64) error
}

// StartAt makes the consumer start each assigned partition at the offset stored in p, instead of
// the one that the group has committed. It must be called before Run.
func (c *Consumer) StartAt(p Positions) {
	c.positions = p
	c.opts = append(c.opts, kgo.AdjustFetchOffsetsFn(c.startOffsets))
}

// positionTimeout is the time limit of reading an offset, and of storing it. If reading fails, the
// group assigns the partitions again.
const positionTimeout = 5 * time.Second

func (c *Consumer) startOffsets(ctx context.Context, assigned map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, positionTimeout)
	defer cancel()
	for topic, partitions := range assigned {
		stored, err := c.positions.Load(ctx, c.cfg.withoutPrefix(topic))
		if err != nil {
			c.log.WarnContext(ctx, "stored offsets not read, trying again", "topic", topic, "error", err)
			return nil, err
		}
		for id := range partitions {
			if next, known := stored[id]; known {
				partitions[id] = kgo.NewOffset().At(next)
			} else {
				partitions[id] = kgo.NewOffset().AtStart()
			}
		}
	}
	return assigned, nil
}

// savePosition stores the offset after a dead letter. Otherwise a consumer that starts at the
// stored offset would dead-letter the record once more.
func (w *worker) savePosition(rec *kgo.Record) {
	if w.c.positions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, positionTimeout)
	defer cancel()
	if err := w.c.positions.Save(ctx, w.part.topic, w.part.id, rec.Offset+1); err != nil {
		w.log.WarnContext(ctx, "offset of a dead letter not stored", "offset", rec.Offset, "error", err)
	}
}
