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
	withEarlier := func(r promotion.Request) request.EarlierApplications {
		return request.EarlierApplications{Lock: &promotion.Lock{RequestID: r.RequestID, KeyHash: "k"}, Request: &r}
	}
	expired := request.EarlierApplications{Lock: &promotion.Lock{RequestID: "r1", Withdrawals: request.MaxWithdrawals - 1}}
	withdrawnTooOften := request.EarlierApplications{Lock: &promotion.Lock{RequestID: "r1", Withdrawals: request.MaxWithdrawals}}
	for name, tc := range map[string]struct {
		app                 request.Application
		id                  string
		earlierApplications request.EarlierApplications
		err                 error
		existing            bool
		duplicate           bool
		status              promotion.Status
	}{
		"first":                   {app: request.Application{Promotion: open}, status: promotion.Received},
		"nothing left":            {app: request.Application{Promotion: open, Full: true}, status: promotion.Rejected},
		"a lottery is never full": {app: request.Application{Promotion: lottery, Full: true}, status: promotion.Received},
		"busy":                    {app: request.Application{Promotion: open, Busy: true}, err: request.ErrTooMany},
		"closed":                  {app: request.Application{Promotion: closed, Busy: true}, err: request.ErrNotOpen},
		"paused":                  {app: request.Application{Promotion: paused}, earlierApplications: withdrawnTooOften, err: request.ErrNotOpen},
		"withdrawn too often":     {app: request.Application{Promotion: open, Busy: true}, earlierApplications: withdrawnTooOften, err: request.ErrWithdrawnTooOften},
		"expired before its lock": {app: request.Application{Promotion: open}, earlierApplications: expired, status: promotion.Received},
		"applied before":          {app: request.Application{Promotion: closed, Busy: true}, earlierApplications: withEarlier(earlier), existing: true, duplicate: true},
		"repeated under a key":    {app: request.Application{Promotion: open, KeyHash: "k"}, earlierApplications: withEarlier(earlier), existing: true},
		"another key":             {app: request.Application{Promotion: open, KeyHash: "l"}, earlierApplications: withEarlier(earlier), existing: true, duplicate: true},
		"own earlier try":         {app: request.Application{Promotion: open}, id: "r1", earlierApplications: withEarlier(earlier), existing: true},
		"failed":                  {app: request.Application{Promotion: open}, earlierApplications: withEarlier(earlier.Failed(now, promotion.FailedWorker, promotion.Failure{}).After), status: promotion.Received},
		"withdrawn":               {app: request.Application{Promotion: open}, earlierApplications: withEarlier(earlier.Withdrawn(now).After), status: promotion.Received},
		"rejected":                {app: request.Application{Promotion: open}, earlierApplications: withEarlier(earlier.Ended(now, promotion.Rejected, promotion.RejectedCapacity).After), existing: true, duplicate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := request.Decide(tc.app, tc.id, tc.earlierApplications, now)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.existing, d.Existing != nil)
			require.Equal(t, tc.status, d.Created.After.Status)
			if tc.existing {
				require.Equal(t, tc.duplicate, d.Existing.Duplicate)
				require.Equal(t, now, d.Existing.StoredBy)
			}
			if tc.status != "" && tc.earlierApplications.Lock != nil {
				require.Equal(t, tc.earlierApplications.Lock.Withdrawals, d.Lock.Withdrawals, "the count is taken over")
			}
		})
	}
}
