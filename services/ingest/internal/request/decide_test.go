package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/promotion"
	"urr.guru/services/ingest/internal/request"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const now = int64(1_000)
	open := promotion.Promotion{EventID: "e", EventType: promotion.FirstCome, ClosesAt: 2 * now, Shards: 1}
	closed, paused, lottery := open, open, open
	closed.ClosedAt, paused.Paused, lottery.EventType = now, true, promotion.Lottery
	earlier := promotion.NewRequest(&open, "r1", "ann", now-1)
	had := func(r promotion.Request) request.EarlierApplications {
		return request.EarlierApplications{Lock: &promotion.Lock{RequestID: r.RequestID, KeyHash: "k"}, Request: &r}
	}
	expired := request.EarlierApplications{Lock: &promotion.Lock{RequestID: "r1", Withdrawals: request.MaxWithdrawals - 1}}
	tired := request.EarlierApplications{Lock: &promotion.Lock{RequestID: "r1", Withdrawals: request.MaxWithdrawals}}
	for name, tc := range map[string]struct {
		app       request.Application
		id        string
		was       request.EarlierApplications
		err       error
		existing  bool
		duplicate bool
		status    promotion.Status
	}{
		"first":                   {app: request.Application{Promotion: open}, status: promotion.Received},
		"nothing left":            {app: request.Application{Promotion: open, Full: true}, status: promotion.Rejected},
		"a lottery is never full": {app: request.Application{Promotion: lottery, Full: true}, status: promotion.Received},
		"busy":                    {app: request.Application{Promotion: open, Busy: true}, err: request.ErrTooMany},
		"closed":                  {app: request.Application{Promotion: closed, Busy: true}, err: request.ErrNotOpen},
		"paused":                  {app: request.Application{Promotion: paused}, was: tired, err: request.ErrNotOpen},
		"withdrawn too often":     {app: request.Application{Promotion: open, Busy: true}, was: tired, err: request.ErrWithdrawnTooOften},
		"expired before its lock": {app: request.Application{Promotion: open}, was: expired, status: promotion.Received},
		"applied before":          {app: request.Application{Promotion: closed, Busy: true}, was: had(earlier), existing: true, duplicate: true},
		"repeated under a key":    {app: request.Application{Promotion: open, KeyHash: "k"}, was: had(earlier), existing: true},
		"another key":             {app: request.Application{Promotion: open, KeyHash: "l"}, was: had(earlier), existing: true, duplicate: true},
		"own earlier try":         {app: request.Application{Promotion: open}, id: "r1", was: had(earlier), existing: true},
		"failed":                  {app: request.Application{Promotion: open}, was: had(earlier.Failed(now, promotion.FailedWorker, promotion.Failure{}).After), status: promotion.Received},
		"withdrawn":               {app: request.Application{Promotion: open}, was: had(earlier.Withdrawn(now).After), status: promotion.Received},
		"rejected":                {app: request.Application{Promotion: open}, was: had(earlier.Ended(now, promotion.Rejected, promotion.RejectedCapacity).After), existing: true, duplicate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := request.Decide(tc.app, tc.id, tc.was, now)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.existing, d.Existing != nil)
			require.Equal(t, tc.status, d.Created.After.Status)
			if tc.existing {
				require.Equal(t, tc.duplicate, d.Existing.Duplicate)
				require.Equal(t, now, d.Existing.StoredBy)
			}
			if tc.status != "" && tc.was.Lock != nil {
				require.Equal(t, tc.was.Lock.Withdrawals, d.Lock.Withdrawals, "the count is taken over")
			}
		})
	}
}
