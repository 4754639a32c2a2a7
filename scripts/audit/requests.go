package audit

import (
	"context"

	"urr.guru/proto/events"
)

// requestCounts are the figures of the requests to one promotion.
type requestCounts struct {
	Succeeded, Rejected, Failed int64
}

// wrongRequests compares stats's figures of a promotion with the events in the topic.
func (s *Stores) wrongRequests(ctx context.Context, eventID string) ([]string, error) {
	return daily[requestCounts]{
		of: "requests",
		query: `
			SELECT coalesce(sum(succeeded), 0)::bigint, coalesce(sum(rejected), 0)::bigint, coalesce(sum(failed), 0)::bigint
			FROM request_days WHERE event_id = $1`,
		columns: func(c *requestCounts) []any { return []any{&c.Succeeded, &c.Rejected, &c.Failed} },
		topic:   events.Requests, count: (*requestCounts).add,
	}.wrong(ctx, s, eventID)
}

func (c *requestCounts) add(f fact) {
	switch f.Type {
	case events.RequestSucceeded:
		c.Succeeded++
	case events.RequestRejected:
		c.Rejected++
	case events.RequestFailed:
		c.Failed++
	}
}
