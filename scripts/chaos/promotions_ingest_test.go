package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/platform"
)

// enoughPlaces is a promotion with a place for each of its applicants.
var enoughPlaces = promotionSize{places: 10}

// TestIngestDiesWhileAccepting kills the ingest service at each failpoint between its writes, while
// no worker runs. The request is queued once, or it was not stored and its user applies again.
func TestIngestDiesWhileAccepting(t *testing.T) {
	if !*full {
		t.Skip("ingest has tests of its own: make chaos P=IngestDies")
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, nil)
	p.stopWorkers()
	events := map[string]string{}
	for _, point := range acceptPoints {
		p.kill(replicaID{platform.Ingest, 0}, point+"@1=exit")
		var tried []string
		p.Eventually(func(ctx context.Context) error {
			// A call that fails for another reason, such as an old connection, may have stored the request.
			// So the next call is for another promotion. This does not wait for a slow queue.
			eventID := p.open(enoughPlaces, 1)
			tried = append(tried, eventID)
			if _, err := p.applyAt(ctx, 0, eventID, "ann"); p.Service(platform.Ingest).Running(0) {
				return cmp.Or(err, errors.New(point+" is not reached"))
			}
			return nil
		})
		require.Equal(t, "signal: killed", p.Service(platform.Ingest).AwaitEnd(0))
		eventID, left := p.leftBehind(tried)
		events[point] = eventID
		id := p.mustApply(1, eventID, "ann")
		if point == "ingest.stamped" {
			require.Empty(t, left.Requests, point)
			require.Empty(t, left.Locks, "a lock without a request")
		} else {
			require.Len(t, left.Requests, 1, point)
			require.Equal(t, left.Requests[0].ID, id, "the second application finds the first one's request")
		}
		p.begin(replicaID{platform.Ingest, 0}, "")
	}
	for point, eventID := range events {
		got := p.awaitQueued(eventID)
		queued := 0
		for _, l := range got.Requests[0].Logs {
			if l.To == "QUEUED" {
				queued++
			}
		}
		require.Equal(t, 1, queued, point)
		require.Len(t, p.SQS().Sent()[got.Requests[0].ID], 1, "%s: the message is in the queue once", point)
		t.Logf("%s: %v", point, got.Requests[0].Logs)
	}
	p.revive()
	for _, eventID := range events {
		require.Equal(t, 1, p.requireSettled(eventID).Succeeded())
	}
	p.logFigures()
}

// leftBehind returns the tried promotion for which the killed process has stored a request, maybe
// of an earlier call, and what is stored. Without a request it returns any of them.
func (p *promotions) leftBehind(tried []string) (eventID string, left *audit.Promotion) {
	p.t.Helper()
	for _, eventID = range slices.Backward(tried) {
		var err error
		left, err = p.audit.Get(p.t.Context(), eventID)
		require.NoError(p.t, err)
		if len(left.Requests) > 0 {
			break
		}
	}
	return eventID, left
}

// TestQueueLosesMessages lets the queue lose messages that it has accepted. The ingest service
// sends each again once it is certainly lost.
func TestQueueLosesMessages(t *testing.T) {
	if !*full {
		t.Skip("ingest has a test of its own: make chaos P=QueueLosesMessages")
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, wrongClocks, map[string][]string{platform.Ingest: {"INGEST_LOST_AFTER=1s", "INGEST_SEND_AFTER=1s"}})
	eventID := p.open(enoughPlaces, 0)
	p.SQS().Use(func(c awsproxy.Call) awsproxy.Fault { return awsproxy.Fault{Swallow: c.Name == "SendMessageBatch"} })
	var lost []string
	for i := range 3 {
		lost = append(lost, p.mustApply(i%ingestReplicas, eventID, fmt.Sprint("user-", i)))
	}
	for _, id := range lost {
		require.True(t, p.SQS().Swallowed(id))
		require.Empty(t, p.SQS().Sent()[id])
	}
	p.SQS().Use(nil)
	require.Equal(t, 3, p.requireSettled(eventID).Succeeded())
	for _, id := range lost {
		require.NotEmpty(t, p.SQS().Sent()[id])
	}
}

func (p *promotions) stopWorkers() {
	for i := range workerReplicas {
		p.Service(platform.Worker).Stop(i)
	}
}

// awaitQueued waits until every request of a promotion is in the queue.
func (p *promotions) awaitQueued(eventID string) (got *audit.Promotion) {
	p.t.Helper()
	p.endLeases()
	p.Eventually(func(ctx context.Context) (err error) {
		if got, err = p.audit.Get(ctx, eventID); err != nil {
			return err
		}
		for _, r := range got.Requests {
			if r.Status != "QUEUED" {
				return fmt.Errorf("%s is %s", r.ID, r.Status)
			}
		}
		if len(got.Requests) == 0 {
			return errors.New("there are no requests")
		}
		return nil
	})
	return got
}
