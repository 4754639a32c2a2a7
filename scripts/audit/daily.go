package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/scripts/platform"
)

// daily is a kind of figures that stats keeps by event and day, counted from one topic.
type daily[C comparable] struct {
	// of is what they count.
	of string
	// query sums the figures of the event $1.
	query string
	// columns are where the results of the query go.
	columns func(*C) []any
	topic   string
	// count adds an event of the topic.
	count func(*C, fact)
}

// wrong compares the figures of an event with those of the topic, in which each id is counted once.
func (d daily[C]) wrong(ctx context.Context, s *Stores, eventID string) ([]string, error) {
	var counted C
	if err := s.stats.QueryRow(ctx, d.query, eventID).Scan(d.columns(&counted)...); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", d.of, eventID, unavailable(postgresStore(platform.Stats), err))
	}
	facts, err := s.facts(ctx, d.topic, eventID)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) { // a platform without the service has no topic
		return nil, err
	}
	var published C
	for _, f := range facts {
		d.count(&published, f)
	}
	if counted == published {
		return nil, nil
	}
	return []string{fmt.Sprintf("stats has the %s %+v, the events are %+v", d.of, counted, published)}, nil
}
