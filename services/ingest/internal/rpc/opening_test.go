package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// The terms of a lottery's draw are public from its creation on, and never change.
func TestLotteryOpening(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	in := lottery(t)
	in.Caller.IdempotencyKey = "k"
	p, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "Open", p.GetStatus())
	require.Equal(t, cutoff, p.GetLotteryCutoffAt().AsTime())
	d := r.document(t, p.GetEventId())
	report, err := fairdraw.Verify(d, nil, fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw})
	require.NoError(t, err)
	terms := report.Commitment
	require.Equal(t, fairdraw.PhaseOpen, d.Phase)
	require.Equal(t, 3, terms.Winners)
	require.Equal(t, cutoff, terms.Cutoff())
	require.Equal(t, announced, terms.Announced())
	require.Equal(t, int64(600), terms.Beacon.DelaySeconds)
	require.Equal(t, "s-1", terms.SeedKID)
	require.Equal(t, []byte(drawKeys(t).Keys().Statements.Public("k-1")), terms.StatementKey[:])
	require.Equal(t, []byte(receiptKeys(t).Public("r-1")), terms.ReceiptKey[:])
	again, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, p.GetEventId(), again.GetEventId())
	require.NotZero(t, terms.SeedHash)
	other, err := r.admin.CreatePromotion(t.Context(), lottery(t))
	require.NoError(t, err)
	otherTerms, _, err := fairdraw.ParseCommitment([]byte(r.document(t, other.GetEventId()).Commitment))
	require.NoError(t, err)
	require.NotEqual(t, terms.SeedHash, otherTerms.SeedHash, "each draw has a seed of its own")

	_, err = r.admin.ClosePromotion(t.Context(), &ingestv1.ClosePromotionRequest{Caller: operator(), EventId: p.GetEventId()})
	require.ErrorIs(t, errs.From(err), errs.ErrConflict, "the cutoff is a term")
	w.clock.Set(cutoff)
	got, err := r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: p.GetEventId()})
	require.NoError(t, err)
	require.Equal(t, "Closed", got.GetStatus())
	w.clock.Set(announced)
	got, err = r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: p.GetEventId()})
	require.NoError(t, err)
	require.Equal(t, "Closed", got.GetStatus(), "there is no result")
}

// A repeated creation gets the same answer while the worker service is unavailable, and even when
// it is too late to create the lottery.
func TestRepeatedCreationOfLotteryNeedsNoWorker(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	in := lottery(t)
	in.Caller.IdempotencyKey = "k"
	p, err := w.replica(t, options{}).admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	alone := w.replica(t, options{opening: errs.ErrUnavailable})
	_, err = alone.admin.CreatePromotion(t.Context(), lottery(t))
	require.ErrorIs(t, errs.From(err), errs.ErrUnavailable, "another one")
	for _, at := range []time.Time{start, announced} {
		w.clock.Set(at)
		again, err := alone.admin.CreatePromotion(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, p.GetEventId(), again.GetEventId())
	}
	in.Title = "Others"
	_, err = alone.admin.CreatePromotion(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrIdempotencyKeyReused)
}

func TestLotteryWithoutBeacon(t *testing.T) {
	t.Parallel()
	r := newEnvironment(t).replica(t, options{})
	in := lottery(t)
	in.Beacon, in.AnnouncedAt = nil, timestamppb.New(cutoff.Add(2*time.Minute))
	p, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	report, err := fairdraw.Verify(r.document(t, p.GetEventId()), nil, fairdraw.Options{})
	require.NoError(t, err)
	require.Nil(t, report.Commitment.Beacon)
}

func TestLotteryTermsRefused(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	delay := func(s int64) func(*ingestv1.CreatePromotionRequest) {
		return func(in *ingestv1.CreatePromotionRequest) { in.Beacon.DelaySeconds = &s }
	}
	for name, tc := range map[string]struct {
		change func(*ingestv1.CreatePromotionRequest)
		path   string
	}{
		"another cutoff":  {func(in *ingestv1.CreatePromotionRequest) { in.LotteryCutoffAt = timestamppb.New(cutoff.Add(-1)) }, "lotteryCutoffAt"},
		"no announcement": {func(in *ingestv1.CreatePromotionRequest) { in.AnnouncedAt = nil }, "announcedAt"},
		"announced early": {func(in *ingestv1.CreatePromotionRequest) {
			in.AnnouncedAt = timestamppb.New(announced.Add(-time.Millisecond))
		}, "announcedAt"},
		"announced late": {func(in *ingestv1.CreatePromotionRequest) {
			in.AnnouncedAt = timestamppb.New(announced.AddDate(2, 0, 0))
		}, "announcedAt"},
		"short delay":     {delay(119), "beacon.delaySeconds"},
		"negative delay":  {delay(-1 << 60), "beacon.delaySeconds"},
		"long delay":      {delay(1 << 60), "beacon.delaySeconds"},
		"another genesis": {func(in *ingestv1.CreatePromotionRequest) { in.Beacon.Genesis += 30 * 24 * 3600 }, "beacon"},
		"key of no chain": {func(in *ingestv1.CreatePromotionRequest) { in.Beacon.PublicKey = "00" }, "beacon"},
		"over already":    {func(in *ingestv1.CreatePromotionRequest) { in.ClosesAt = timestamppb.New(start) }, "closesAt"},
		"first come":      {func(in *ingestv1.CreatePromotionRequest) { in.EventType = "FIRST_COME" }, "announcedAt"},
	} {
		in := lottery(t)
		tc.change(in)
		_, err := r.admin.CreatePromotion(t.Context(), in)
		e := errs.From(err)
		require.ErrorIs(t, e, errs.ErrInvalidRequest, name)
		require.Equal(t, tc.path, e.Fields[0].Path, name)
	}
	require.Empty(t, w.ofType(t, "CONFIG"))
	_, err := r.GetDrawProof(t.Context(), &ingestv1.GetDrawProofRequest{EventId: "none", RequestId: "01a196eb-d7a8-707f-9feb-89cf3865794d"})
	require.Equal(t, "DRAW_NOT_FOUND", reason(err))
	_, err = r.GetDrawProof(t.Context(), &ingestv1.GetDrawProofRequest{EventId: r.promotion(t), RequestId: "01a196eb-d7a8-707f-9feb-89cf3865794d"})
	require.Equal(t, "DRAW_NOT_FOUND", reason(err), "first come has none")
}

// A lottery is not created while its beacon cannot be checked.
func TestLotteryWithoutABeaconThatAnswers(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	for _, want := range []*errs.Error{errs.ErrBeaconUnavailable, errs.ErrUnavailable} {
		_, err := w.replica(t, options{opening: want}).admin.CreatePromotion(t.Context(), lottery(t))
		require.ErrorIs(t, errs.From(err), want)
		require.Empty(t, w.ofType(t, "CONFIG"))
	}
}
