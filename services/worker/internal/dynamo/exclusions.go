package dynamo

import (
	"context"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

// Exclusions implements draw.Requests. One that cannot be read is mended, so that ingest, which
// publishes the list, reads what was signed.
func (s *Store) Exclusions(ctx context.Context, event string) ([]fairdraw.Exclusion, error) {
	var out []fairdraw.Exclusion
	reasons := map[promotion.ResultCode]string{} // one text for all exclusions with a reason
	p := table.Partition{PK: table.ExclusionPartition(event)}
	for more := true; more; {
		var items []dynamo.Item
		var err error
		if items, more, err = s.Query(ctx, p); err != nil {
			return nil, err
		}
		for _, it := range items {
			e, err := table.DecodeExclusion(it)
			if err != nil {
				if e, err = s.MendExclusion(ctx, it, err); err != nil {
					return nil, changed(err)
				}
			}
			if _, known := reasons[e.Reason]; !known {
				reasons[e.Reason] = string(e.Reason)
			}
			out = append(out, fairdraw.Exclusion{RequestID: e.RequestID, Reason: reasons[e.Reason]})
			p.After = e.RequestID
		}
		more = more && len(items) > 0
	}
	return out, nil
}
