package dynamo

import (
	"context"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

// Exclusions reads all exclusions of a draw. It repairs exclusions that cannot be decoded: the
// ingest service, which publishes the list, then reads the same list as was signed.
func (s *Store) Exclusions(ctx context.Context, event string) ([]fairdraw.Exclusion, error) {
	var out []fairdraw.Exclusion
	reasons := map[promotion.ResultCode]string{} // so that exclusions with the same reason share one string
	for it, err := range s.All(ctx, table.PartitionQuery{PK: table.ExclusionPartition(event)}) {
		if err != nil {
			return nil, err
		}
		e, err := table.DecodeExclusion(it)
		if err != nil {
			if e, err = s.MendExclusion(ctx, it, err); err != nil {
				return nil, toErrChanged(err)
			}
		}
		if _, known := reasons[e.Reason]; !known {
			reasons[e.Reason] = string(e.Reason)
		}
		out = append(out, fairdraw.Exclusion{RequestID: e.RequestID, Reason: reasons[e.Reason]})
	}
	return out, nil
}
