package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/scripts/platform"
)

// withdrawPoints are the failpoints before and after the write of a withdrawal.
var withdrawPoints = []string{"ingest.withdrawing", "ingest.withdrawn"}

// TestIngestDiesWhileWithdrawing kills the ingest service at each failpoint of a withdrawal. Then
// the lottery entry exists or is withdrawn, and the user can withdraw again and apply again.
func TestIngestDiesWhileWithdrawing(t *testing.T) {
	if !*full {
		t.Skip("ingest has tests of its own: make chaos P=IngestDiesWhileWithdrawing")
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, map[string][]string{
		platform.Ingest: {"INGEST_DRAW_MIN_DELAY=1s", "INGEST_DRAW_LEAD=1s"}, platform.Worker: {"WORKER_DRAW_AFTER=2s"},
	})
	for _, point := range withdrawPoints {
		eventID := p.openLottery(enoughPlaces, time.Hour, false)
		id := p.mustApply(1, eventID, "ann")
		p.awaitRequest(eventID, id, "PROCESSING", "") // an entry in the lottery
		p.kill(replicaID{platform.Ingest, 0}, point+"@1=exit")
		p.Eventually(func(ctx context.Context) error {
			err := p.withdraw(ctx, 0, id)
			if p.Service(platform.Ingest).Running(0) {
				return errors.Join(err, errors.New(point+" is not reached"))
			}
			return nil
		})
		require.Equal(t, "signal: killed", p.Service(platform.Ingest).AwaitEnd(0))
		if point == "ingest.withdrawing" {
			p.awaitRequest(eventID, id, "PROCESSING", "")
		} else {
			p.awaitRequest(eventID, id, "REJECTED", "REJECTED_WITHDRAWN")
		}
		p.Eventually(func(ctx context.Context) error { return p.withdraw(ctx, 1, id) })
		p.awaitRequest(eventID, id, "REJECTED", "REJECTED_WITHDRAWN")
		again := p.mustApply(1, eventID, "ann")
		require.NotEqual(t, id, again, point)
		p.awaitRequest(eventID, again, "PROCESSING", "")
		p.begin(replicaID{platform.Ingest, 0}, "")
	}
	t.Logf("deaths: %v", p.deaths)
}

func (p *promotions) withdraw(ctx context.Context, replica int, id string) error {
	_, err := p.users[replica].WithdrawRequest(ctx, &ingestv1.WithdrawRequestRequest{Caller: &commonv1.Caller{UserId: "ann"}, RequestId: id})
	return err
}

// awaitRequest waits until a request has a status and a result.
func (p *promotions) awaitRequest(eventID, id, status, result string) {
	p.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		got, err := p.audit.Get(ctx, eventID)
		if err != nil {
			return err
		}
		for _, r := range got.Requests {
			if r.ID == id && r.Status == status && (result == "" || r.ResultCode == result) {
				return nil
			}
		}
		return fmt.Errorf("request %s is not %s %s: %+v", id, status, result, got.Requests)
	})
}
