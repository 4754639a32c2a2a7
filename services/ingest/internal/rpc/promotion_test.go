package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/wire/wiretest"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// Every member of a new promotion is stored and shown: shards only by the store, the beacon in the
// terms of the draw. A new member of CreatePromotionRequest needs a line here only when its rules
// refuse what Fill sets.
func TestPromotionShowsAllThatWasSet(t *testing.T) {
	t.Parallel()
	r := newWorld(t).replica(t, options{})
	beacon := lottery(t).GetBeacon()
	beacon.DelaySeconds = new(int64(130))
	in := &ingestv1.CreatePromotionRequest{}
	wiretest.Fill(in, map[string]any{
		"caller": operator(), "event_type": "LOTTERY", "beacon": beacon,
		"opens_at": timestamppb.New(start.Add(-time.Hour)), "closes_at": timestamppb.New(cutoff), "lottery_cutoff_at": timestamppb.New(cutoff),
		"announced_at": timestamppb.New(announced),
	})
	created, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	wiretest.RequireShown(t, in, created, "caller", "shards", "beacon")
	read, err := r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: created.GetEventId()})
	require.NoError(t, err)
	wiretest.RequireShown(t, in, read, "caller", "shards", "beacon")

	stored, err := r.store.Promotion(t.Context(), created.GetEventId())
	require.NoError(t, err)
	require.EqualValues(t, in.GetShards(), stored.Shards)
	terms, _, err := fairdraw.ParseCommitment([]byte(r.document(t, created.GetEventId()).Commitment))
	require.NoError(t, err)
	wiretest.RequireShown(t, beacon, &ingestv1.Beacon{
		Scheme: terms.Beacon.Scheme, ChainHash: terms.Beacon.ChainHash, PublicKey: terms.Beacon.PublicKey, Genesis: terms.Beacon.Genesis,
		PeriodSeconds: terms.Beacon.Period,
		GroupHash:     terms.Beacon.GroupHash, BeaconId: terms.Beacon.BeaconID, DelaySeconds: &terms.Beacon.DelaySeconds,
	})
}
