package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/wire/wiretest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

// Every field of a new promotion is stored and shown; shards only in the store, the beacon in the
// draw's terms. A new field of CreatePromotionRequest needs a line here only if its validation
// refuses the value that Fill sets.
func TestPromotionShowsAllThatWasSet(t *testing.T) {
	t.Parallel()
	r := newEnvironment(t).replica(t, options{})
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
	wiretest.RequireShown(t, in, read, "caller", "shards", "beacon", "expected")
	require.Nil(t, read.GetExpected(), "for operators only")

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

// The expected number of visitors sets the number of shards, at the creation and later. It never
// decreases, so that requests of a replica that knows an old number are still listed.
func TestExpectedRaisesShards(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r, other := w.replica(t, options{}), w.replica(t, options{})
	in := creation()
	in.Shards = new(int32(1))
	p, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	event := p.GetEventId()
	require.Nil(t, p.GetExpected())
	names, want := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint("u", i))
		}
		return out
	}, map[string]bool{}
	for _, name := range names(0, 5) {
		want[other.applied(t, event, name).GetRequestId()] = true
	}
	set := func(e *commonv1.Expected) *ingestv1.Promotion {
		t.Helper()
		p, err := r.admin.SetExpected(t.Context(), &ingestv1.SetExpectedRequest{Caller: operator(), EventId: event, Expected: e})
		require.NoError(t, err)
		return p
	}
	shards := func() (int64, int64) {
		t.Helper()
		stored, err := r.store.Promotion(t.Context(), event)
		require.NoError(t, err)
		return stored.Shards, stored.MaxUnsettled()
	}
	require.EqualValues(t, 60, set(&commonv1.Expected{Visitors: 1_000_000, WithinSeconds: 60}).GetExpected().GetWithinSeconds())
	shown, err := r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: event})
	require.NoError(t, err)
	require.EqualValues(t, 60_000, shown.GetSpreadMs())
	n, unsettled := shards()
	require.Equal(t, []int64{67, 100_000}, []int64{n, unsettled})
	for _, name := range names(5, 10) {
		want[other.applied(t, event, name).GetRequestId()] = true // this replica still knows one shard
		want[r.applied(t, event, name+"-new").GetRequestId()] = true
	}
	listed, err := r.admin.ListRequests(t.Context(), &ingestv1.ListRequestsRequest{Caller: operator(), EventId: event, Limit: 100})
	require.NoError(t, err)
	got := map[string]bool{}
	for _, item := range listed.GetItems() {
		got[item.GetRequestId()] = true
	}
	require.Equal(t, want, got)

	require.Nil(t, set(&commonv1.Expected{}).GetExpected())
	n, unsettled = shards()
	require.Equal(t, []int64{67, 10_000}, []int64{n, unsettled})
	summary, err := r.admin.GetSummary(t.Context(), &ingestv1.GetSummaryRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Nil(t, summary.GetPromotion().GetExpected())
}

func TestExpectedIsChecked(t *testing.T) {
	t.Parallel()
	r := newEnvironment(t).replica(t, options{})
	event := r.promotion(t)
	for path, e := range map[string]*commonv1.Expected{
		"expected.withinSeconds": {Visitors: 1}, "expected.visitors": {WithinSeconds: 1},
	} {
		_, err := r.admin.SetExpected(t.Context(), &ingestv1.SetExpectedRequest{Caller: operator(), EventId: event, Expected: e})
		require.Equal(t, path, errs.From(err).Fields[0].Path)
		in := creation()
		in.Expected = e
		_, err = r.admin.CreatePromotion(t.Context(), in)
		require.Equal(t, path, errs.From(err).Fields[0].Path)
	}
	_, err := r.admin.SetExpected(t.Context(), &ingestv1.SetExpectedRequest{Caller: user("ann"), EventId: event, Expected: &commonv1.Expected{}})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
}

// ExpectedOpenings finds promotions between two times that have not ended and expect visitors.
func TestExpectedOpenings(t *testing.T) {
	t.Parallel()
	r := newEnvironment(t).replica(t, options{})
	promotions := request.NewPromotions(r.store, request.PromotionOptions{Now: time.Now})
	want := map[string]plan.Expected{}
	for visitors := range int64(3) {
		in := creation()
		in.Expected = &commonv1.Expected{Visitors: visitors, WithinSeconds: min(visitors, 1)}
		p, err := r.admin.CreatePromotion(t.Context(), in)
		require.NoError(t, err)
		if visitors == 2 {
			_, err = r.admin.ClosePromotion(t.Context(), &ingestv1.ClosePromotionRequest{Caller: operator(), EventId: p.GetEventId()})
			require.NoError(t, err)
		} else if visitors > 0 {
			want[p.GetEventId()] = plan.Expected{Visitors: visitors, WithinSeconds: 1}
		}
	}
	opens := start.Add(-time.Hour)
	for until, want := range map[time.Time]map[string]plan.Expected{opens: want, opens.Add(-time.Second): {}} {
		found, err := promotions.ExpectedOpenings(t.Context(), opens.Add(-time.Minute), until)
		require.NoError(t, err)
		got := map[string]plan.Expected{}
		for _, o := range found {
			require.True(t, opens.Equal(o.At))
			got[o.EventID] = o.Expected
		}
		require.Equal(t, want, got)
	}
}
