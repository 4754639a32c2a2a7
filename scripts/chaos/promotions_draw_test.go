package chaos_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/wire"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/scripts/platform"
)

// drawPoints are the failpoints of a draw, in the order in which it passes them.
var drawPoints = []string{
	"worker.draw.waited", "worker.draw.closing", "worker.draw.closed", "worker.draw.listed", "worker.draw.stated", "worker.draw.signed",
	"worker.draw.fetched", "worker.draw.ranked", "worker.draw.winners", "worker.draw.drawn", "worker.draw.announced",
	"worker.draw.settling_winners", "worker.draw.settling", "worker.draw.settled",
}

// TestDrawSurvivesDeaths kills a worker at each failpoint of a lottery's draw. Each time another
// worker continues. The lottery is drawn once, anyone can verify it, and every user gets a result.
// The short form has three deaths and no beacon, whose round is a minute after the statement.
func TestDrawSurvivesDeaths(t *testing.T) {
	parallelIfShort(t)
	size, openFor, points := promotionSize{applicants: 20, places: 8, clients: 10, pace: time.Millisecond}, 4*time.Second,
		[]string{"worker.draw.stated", "worker.draw.winners", "worker.draw.settling"}
	if *full {
		size, openFor, points = promotionSize{applicants: 300, places: 100, clients: 24, pace: 20 * time.Millisecond}, 45*time.Second, drawPoints
	}
	_, rng := seededRandom(t)
	p := setupPromotions(t, rng, nil, map[string][]string{
		platform.Ingest:  {"INGEST_DRAW_MIN_DELAY=1s", "INGEST_DRAW_LEAD=1s"},
		platform.Worker:  {"WORKER_DRAW_AFTER=2s"},
		platform.Sandbox: {"SANDBOX_BEACON_PERIOD=1s"},
	})
	eventID, a := p.fillLottery(size, openFor)
	began := time.Now()
	for i, point := range points {
		p.dieAt(eventID, i%workerReplicas, point)
	}
	p.revive()
	got := p.awaitSettled(eventID)
	require.Empty(t, got.Faults(p.SQS().Sent()).All())
	require.Equal(t, min(size.places, len(got.Requests)), got.Succeeded())
	a.requireOneEach(got)
	report := p.verifyDraw(eventID)
	require.EqualValues(t, len(got.Requests), report.Statement.Count)
	require.Equal(t, *full, report.Commitment.Beacon != nil)
	t.Logf("%d entries for %d places, drawn and announced after %v, deaths %v, missed rounds %d", len(got.Requests), size.places,
		time.Since(began).Round(time.Millisecond), p.deaths, report.Statement.MissedRounds)
}

// fillLottery lets users apply to a lottery while workers die, and stops the workers before its
// draw begins. On a busy machine it retries with more time.
func (p *promotions) fillLottery(size promotionSize, openFor time.Duration) (eventID string, a *applicants) {
	p.t.Helper()
	for ; ; openFor *= 2 {
		p.revive()
		p.receipts = nil
		eventID = p.openLottery(size, openFor, *full)
		a = p.apply(eventID, size)
		if *full {
			p.kill(replicaID{platform.Worker, 0}, "worker.settled@2=exit")
			p.kill(replicaID{platform.Worker, 1}, "worker.decided@3=exit")
		}
		<-a.done
		p.stopWorkers()
		draw := p.draw(eventID)
		if len(a.ids) == size.applicants && draw.GetPhase() == "OPEN" {
			return eventID, a
		}
		p.t.Logf("%d of %d have applied, the draw is %s: once more with more time than %v", len(a.ids), size.applicants, draw.GetPhase(), openFor)
	}
}

// openLottery creates a lottery that closes after the duration openFor, with or without a beacon.
func (p *promotions) openLottery(size promotionSize, openFor time.Duration, withBeacon bool) (eventID string) {
	p.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		now := time.Now().Truncate(time.Second)
		in := &ingestv1.CreatePromotionRequest{
			Caller: promotionOperator(), Title: "Draw", EventType: "LOTTERY", CapacityTotal: int64(size.places),
			OpensAt: timestamppb.New(now.Add(-time.Hour)), ClosesAt: timestamppb.New(now.Add(openFor)), AnnouncedAt: timestamppb.New(now.Add(openFor + 3*time.Second)),
		}
		if withBeacon {
			beacon, err := beacontest.New([]byte(p.Secrets().Beacon), beacontest.Options{Period: time.Second})
			if err != nil {
				return err
			}
			c := beacon.Chain()
			in.Beacon = &ingestv1.Beacon{
				Scheme: c.Scheme, ChainHash: c.ChainHash, PublicKey: c.PublicKey, Genesis: c.Genesis, PeriodSeconds: c.Period,
				GroupHash: c.GroupHash, BeaconId: c.BeaconID, DelaySeconds: proto.Int64(2),
			}
		}
		got, err := p.operators[0].CreatePromotion(ctx, in)
		eventID = got.GetEventId()
		return err
	})
	return eventID
}

// dieAt starts a worker with a failpoint of the draw, and waits until the worker has died there.
func (p *promotions) dieAt(eventID string, replica int, point string) {
	p.t.Helper()
	id := replicaID{platform.Worker, replica}
	p.begin(id, point+"@1=exit")
	awaitDeath(p.Platform, platform.Worker, replica, point)
	p.countDeath(id)
	p.endLeases("draw-" + eventID)
}

// draw returns the published document of a draw.
func (p *promotions) draw(eventID string) *ingestv1.Draw {
	p.t.Helper()
	draw := &ingestv1.Draw{}
	parts, err := p.users[0].GetDraw(p.t.Context(), &ingestv1.GetDrawRequest{EventId: eventID})
	require.NoError(p.t, err)
	for {
		part, err := parts.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(p.t, err)
		proto.Merge(draw, part)
	}
	return draw
}

// verifyDraw verifies the published draw with all receipts, as anybody can.
func (p *promotions) verifyDraw(eventID string) *fairdraw.VerificationReport {
	p.t.Helper()
	draw := p.draw(eventID)
	text, err := wire.Marshal(draw)
	require.NoError(p.t, err)
	document, err := fairdraw.ParseDocument(text)
	require.NoError(p.t, err)
	var entries []byte
	files, err := p.users[1].GetDrawEntries(p.t.Context(), &ingestv1.GetDrawEntriesRequest{EventId: eventID})
	require.NoError(p.t, err)
	for {
		part, err := files.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(p.t, err)
		entries = append(entries, part.GetIds()...)
	}
	receipts := slices.Compact(slices.Sorted(slices.Values(p.receipts)))
	require.NotEmpty(p.t, receipts)
	report, err := fairdraw.Verify(document, entries, fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw, Receipts: receipts})
	require.NoError(p.t, err)
	return report
}
