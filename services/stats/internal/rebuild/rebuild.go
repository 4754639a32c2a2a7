// Package rebuild counts all figures anew from the Kafka topics while the live ones are in use,
// compares both, and replaces the live ones.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"

	"urr.guru/pkg/errs"
	"urr.guru/services/stats/internal/figures"
)

// Offsets are the offsets after the last records that were counted, by topic and partition.
type Offsets map[string]map[int32]int64

// Source reads the Kafka topics from which figures are counted, from any offset.
type Source interface {
	// Check fails unless the topics still have all their records.
	Check(ctx context.Context) error
	// Read calls count with the records of a topic between the offsets from and to, in order within
	// each partition. next is the offset after the records.
	Read(ctx context.Context, topic string, from, to map[int32]int64, count func(ctx context.Context, partition int32, recs []figures.Record, next int64) error) error
	// Unreadable reports whether an error of figures.Record.AddTo makes the record a dead letter.
	Unreadable(err error) bool
}

// Shadow is a second set of figures, beside the live one.
type Shadow interface {
	figures.Store

	Offsets(ctx context.Context) (Offsets, error)
	LiveOffsets(ctx context.Context) (Offsets, error)
	SaveOffset(ctx context.Context, topic string, partition int32, next int64) error
	// Compare and Swap call catchUp while live counting is stopped.
	Compare(ctx context.Context, max int, catchUp func(context.Context) error) (rows int64, differences []string, err error)
	Swap(ctx context.Context, catchUp func(context.Context) error) error
}

const (
	maxDifferences = 20
	// maxBehind is the most records that the shadow may be behind when live counting is stopped.
	maxBehind = 2000
	// maxAttempts is the most times that live counting is stopped because the shadow was too slow.
	maxAttempts = 10
)

// ErrDifferent means that the figures counted anew differ from the live ones.
var ErrDifferent = errors.New("the figures differ")

// Rebuild counts all figures anew. Unless Accept is set, they replace the live ones only if equal.
type Rebuild struct {
	Source  Source
	Shadow  Shadow
	Service *figures.Service // counts into the shadow
	Accept  bool
	Out     io.Writer
}

// Run rebuilds the figures. It may be killed at any point: the live figures are complete before and
// after the swap.
func (r *Rebuild) Run(ctx context.Context) error {
	if err := r.Source.Check(ctx); err != nil {
		return err
	}
	var rows int64
	var differences []string
	err := r.whenNear(ctx, func(ctx context.Context) (err error) {
		rows, differences, err = r.Shadow.Compare(ctx, maxDifferences, r.catchUp)
		return err
	})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	fmt.Fprintf(r.Out, "%d rows counted anew, %d differences\n", rows, len(differences))
	for _, d := range differences {
		fmt.Fprintln(r.Out, d)
	}
	if len(differences) > 0 && !r.Accept {
		return ErrDifferent
	}
	if err := r.whenNear(ctx, func(ctx context.Context) error { return r.Shadow.Swap(ctx, r.catchUp) }); err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	fmt.Fprintln(r.Out, "swapped")
	return nil
}

// whenNear calls fn, which stops live counting, once the shadow is at most maxBehind records behind
// the live figures. It tries again if fn takes too long.
func (r *Rebuild) whenNear(ctx context.Context, fn func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		for {
			behind, err := r.advance(ctx)
			if err != nil {
				return err
			}
			if behind <= maxBehind {
				break
			}
		}
		err := fn(ctx)
		if err == nil || attempt == maxAttempts || !errors.Is(err, errs.ErrUnavailable) {
			return err
		}
	}
}

// catchUp counts the records that the shadow lacks, while live counting is stopped.
func (r *Rebuild) catchUp(ctx context.Context) error {
	_, err := r.advance(ctx)
	return err
}

// advance counts up to the offsets of the live figures, and returns how many records that were.
func (r *Rebuild) advance(ctx context.Context) (read int64, err error) {
	live, err := r.Shadow.LiveOffsets(ctx)
	if err != nil {
		return 0, err
	}
	shadowOffsets, err := r.Shadow.Offsets(ctx)
	if err != nil {
		return 0, err
	}
	for topic, to := range live {
		for p, end := range to {
			read += max(0, end-shadowOffsets[topic][p])
		}
		err := r.Source.Read(ctx, topic, shadowOffsets[topic], to, func(ctx context.Context, partition int32, recs []figures.Record, next int64) error {
			if err := r.count(ctx, topic, partition, recs); err != nil {
				return err
			}
			return r.Shadow.SaveOffset(ctx, topic, partition, next)
		})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", topic, err)
		}
	}
	return read, nil
}

// batchSize is how many records are counted in one transaction.
const batchSize = 1000

// count counts records in batches. It skips those that cannot be read: they are dead letters of the
// live consumer.
func (r *Rebuild) count(ctx context.Context, topic string, partition int32, recs []figures.Record) error {
	for len(recs) > 0 {
		n := min(batchSize, len(recs))
		err := r.Service.Count(ctx, topic, partition, recs[:n])
		if err != nil && !r.Source.Unreadable(err) {
			return err
		}
		for i := 0; err != nil && i < n; i++ {
			if recordErr := r.Service.Count(ctx, topic, partition, recs[i:i+1]); recordErr != nil && !r.Source.Unreadable(recordErr) {
				return recordErr
			}
		}
		recs = recs[n:]
	}
	return nil
}
