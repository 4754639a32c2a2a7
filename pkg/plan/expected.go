// Package plan computes what processors and stores an opening (of a sale, promotion or campaign)
// needs, from the crowd that operators expect and from what `make bench` has measured.
package plan

import (
	"math"

	"urr.guru/pkg/errs"
)

const (
	// SettledPerSecond is how many requests to one promotion the workers process per second, at most.
	SettledPerSecond = 1000
	// MaxUnsettled is how many requests to one promotion wait to be processed, at most.
	MaxUnsettled = 100 * SettledPerSecond
	// MaxWithinSeconds is the longest time in which a crowd is expected.
	MaxWithinSeconds = 86_400

	maxVisitors = 100_000_000
	// shardRate is how many requests per second a partition of the index of a promotion's requests
	// accepts: 1,000 writes per second, of which a request needs four. maxShards is the maximum number
	// of partitions.
	shardRate, maxShards = 250, 128
)

// Expected is the crowd that operators expect at an opening. The zero value: nothing is expected.
type Expected struct {
	Visitors int64
	// WithinSeconds is the time from the opening in which the visitors come.
	WithinSeconds int64
}

// Any reports whether visitors are expected.
func (e Expected) Any() bool { return e.Visitors > 0 && e.WithinSeconds > 0 }

// PerSecond returns how many visitors come per second.
func (e Expected) PerSecond() float64 { return float64(e.Visitors) / float64(max(1, e.WithinSeconds)) }

// Shards returns how many partitions a promotion's index needs.
func (e Expected) Shards() int64 { return min(maxShards, int64(math.Ceil(e.PerSecond()/shardRate))) }

// Check returns the fields that are not valid. The zero value is valid.
func (e Expected) Check() (bad []errs.Field) {
	if e == (Expected{}) {
		return nil
	}
	if e.Visitors < 1 || e.Visitors > maxVisitors {
		bad = append(bad, errs.Field{Path: "expected.visitors", Message: "must be from 1 to 100000000, with withinSeconds"})
	}
	if e.WithinSeconds < 1 || e.WithinSeconds > MaxWithinSeconds {
		bad = append(bad, errs.Field{Path: "expected.withinSeconds", Message: "must be from 1 to 86400, with visitors"})
	}
	return bad
}
