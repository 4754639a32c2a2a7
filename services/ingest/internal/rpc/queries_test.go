package rpc_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

func TestPromotions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	in := creation()
	in.Caller.IdempotencyKey = "k#1"
	first, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "Open", first.GetStatus())
	again, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first.GetEventId(), again.GetEventId())
	in.Title = "other"
	_, err = r.admin.CreatePromotion(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrIdempotencyKeyReused)
	w.clock.Advance(24 * time.Hour)
	in.OpensAt, in.ClosesAt = timestamppb.New(start.Add(48*time.Hour)), timestamppb.New(start.Add(72*time.Hour))
	later, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err, "the key has expired")
	require.NotEqual(t, first.GetEventId(), later.GetEventId())
	require.Equal(t, "Scheduled", later.GetStatus())

	var listed []string
	for cursor := ""; ; {
		page, err := r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{Limit: 1, Cursor: cursor})
		require.NoError(t, err)
		for _, p := range page.GetItems() {
			listed = append(listed, p.GetEventId())
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	require.Equal(t, []string{later.GetEventId(), first.GetEventId()}, listed)
	closed, err := r.admin.ClosePromotion(t.Context(), &ingestv1.ClosePromotionRequest{Caller: operator(), EventId: first.GetEventId()})
	require.NoError(t, err)
	require.Equal(t, "Closed", closed.GetStatus())

	in = creation()
	in.ClosesAt = in.OpensAt
	_, err = r.admin.CreatePromotion(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest)
	in = creation()
	in.Caller = user("ann")
	_, err = r.admin.CreatePromotion(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = r.admin.PausePromotion(t.Context(), &ingestv1.PausePromotionRequest{Caller: operator(), EventId: "none"})
	require.ErrorIs(t, errs.From(err), errs.ErrPromotionNotFound)
}

func TestOwnRequests(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	var want []string
	var last string
	for range 5 {
		last = r.promotion(t)
		want = append(want, r.applied(t, last, "ann").GetRequestId())
		w.clock.Advance(time.Second)
	}
	others := r.applied(t, last, "bob")
	slices.Reverse(want)
	var got []string
	for cursor := ""; ; {
		page, err := r.ListMyRequests(t.Context(), &ingestv1.ListMyRequestsRequest{Caller: user("ann"), Limit: 2, Cursor: cursor})
		require.NoError(t, err)
		for _, item := range page.GetItems() {
			got = append(got, item.GetRequestId())
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	require.Equal(t, want, got)
	myRequest, err := r.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("ann"), EventId: last})
	require.NoError(t, err)
	require.Equal(t, want[0], myRequest.GetRequestId())
	require.Equal(t, "PENDING", myRequest.GetUiResult())
	require.Equal(t, start.Add(4*time.Second).UnixMilli(), myRequest.GetRequestedAt())

	_, err = r.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("carl"), EventId: last})
	require.ErrorIs(t, errs.From(err), errs.ErrRequestNotFound)
	_, err = r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("ann"), RequestId: others.GetRequestId()})
	require.ErrorIs(t, errs.From(err), errs.ErrRequestNotFound, "somebody else's")
	_, err = r.GetTimeline(t.Context(), &ingestv1.GetTimelineRequest{Caller: user("ann"), RequestId: others.GetRequestId()})
	require.ErrorIs(t, errs.From(err), errs.ErrRequestNotFound, "somebody else's")
	_, err = r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: operator(), RequestId: others.GetRequestId()})
	require.NoError(t, err)
	_, err = r.ListMyRequests(t.Context(), &ingestv1.ListMyRequestsRequest{Caller: user("ann"), Cursor: "nonsense"})
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidCursor)
	w.clock.Advance(92 * 24 * time.Hour)
	_, err = r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: operator(), RequestId: others.GetRequestId()})
	require.ErrorIs(t, errs.From(err), errs.ErrRequestNotFound, "expired, although DynamoDB has not deleted it")
}

// Only operators see the error message of a failed request.
func TestErrorMessageIsForOperators(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	id := r.applied(t, r.promotion(t), "ann").GetRequestId()
	read := r.request(t, id)
	tx := r.store.Begin()
	tx.Change(0, read.Failed(start.UnixMilli(), promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "STORE", Message: "hint"}))
	require.NoError(t, tx.Commit(t.Context()))
	own, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("ann"), RequestId: id})
	require.NoError(t, err)
	require.Equal(t, "STORE", own.GetErrorCode())
	require.Nil(t, own.ErrorMessage)
	require.Equal(t, "FAILED", own.GetUiResult())
	operators, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: operator(), RequestId: id})
	require.NoError(t, err)
	require.Equal(t, "hint", operators.GetErrorMessage())
}

// The operators' list of a large promotion has the requests of all partitions, also if filtered.
func TestRequestsOfAPromotion(t *testing.T) {
	t.Parallel()
	for _, shards := range []int32{1, 3, 16} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t)
			r := w.replica(t, options{})
			in := creation()
			in.Shards = &shards
			p, err := r.admin.CreatePromotion(t.Context(), in)
			require.NoError(t, err)
			event := p.GetEventId()
			const users = 24
			tx := r.store.Begin()
			stored, err := r.store.Promotion(t.Context(), event)
			require.NoError(t, err)
			var want, failed []string
			for i := range users {
				q := promotion.NewRequest(&stored, uuid.NewString(), fmt.Sprint("u", i), start.UnixMilli()+int64(i))
				c := q.Created()
				if i%4 == 0 {
					c.After = q.Ended(start.UnixMilli(), promotion.FailedFinal, promotion.FailedWorker).After
					failed = append(failed, q.RequestID)
				}
				tx.Put(i, table.RequestItem(&c.After), table.Absent())
				want = append(want, q.RequestID)
			}
			require.NoError(t, tx.Commit(t.Context()))
			slices.Reverse(want)
			slices.Reverse(failed)
			list := func(in *ingestv1.ListRequestsRequest) (ids []string) {
				t.Helper()
				in.Caller, in.EventId = operator(), event
				for {
					page, err := r.admin.ListRequests(t.Context(), in)
					require.NoError(t, err)
					for _, item := range page.GetItems() {
						ids = append(ids, item.GetRequestId())
					}
					if in.Cursor = page.GetNextCursor(); in.Cursor == "" {
						return ids
					}
				}
			}
			for _, limit := range []int32{0, 1, 7, users, 100} {
				require.Equal(t, want, list(&ingestv1.ListRequestsRequest{Limit: limit}), "limit %d", limit)
			}
			require.Equal(t, failed, list(&ingestv1.ListRequestsRequest{Limit: 3, Status: "FAILED_FINAL"}))
			require.Equal(t, failed, list(&ingestv1.ListRequestsRequest{Limit: 3, ResultCode: "FAILED_WORKER"}))
			require.Empty(t, list(&ingestv1.ListRequestsRequest{Limit: 2, Status: "SUCCEEDED"}))
		})
	}
}

// The indexes have only requests, no sort key has a status, and every item that should expire does.
func TestLayoutOfTheTable(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	in := creation()
	in.Caller.IdempotencyKey = "k"
	p, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	event := p.GetEventId()
	r.applied(t, event, "ann")
	tx := r.store.Begin()
	tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: event, Total: 5}), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	w.clock.Advance(2 * time.Second)
	r.refused(t, event, "bob")
	testkit.Until(t, func() bool { return len(w.ofType(t, "REQUEST")) == 2 }, "the refusal is recorded")
	w.clock.Advance(10 * time.Second)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	r.applied(t, r.promotion(t), "ann")

	end := start.Add(24 * time.Hour).Unix()
	w.requireLayout(t, map[string]int64{
		"REQUEST": end + 90*day, "STATUS_LOG": end + 30*day, "IDEMPOTENCY": end + 7*day, "CREATION_KEY": start.Unix() + day,
		"CONFIG": 0, "CAPACITY": 0, "EVENT": 0, "COUNTS": 0, "MARKER": 0, "OUTBOX": 0, "LEASE": 0,
	})
}

// The stored items of a lottery expire at a time that is counted from the announcement.
func TestLayoutOfLotteries(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	w.clock.Set(start)
	late := d.applied(t, d.event, "late").GetRequestId()
	draw := d.closeDraw(t, d.event)
	winners := d.decideDraw(t, draw)
	d.announce(t, draw)
	d.writeResult(t, winners[0].String(), promotion.Succeeded, promotion.Success)
	w.clock.Advance(11 * time.Second)
	require.NoError(t, d.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.RejectedLate, d.request(t, late).ResultCode)
	w.clock.Set(cutoff.Add(-time.Millisecond))
	d.applied(t, d.lottery(t), "guarded")

	end := announced.Unix()
	w.requireLayout(t, map[string]int64{
		"REQUEST": end + 90*day, "STATUS_LOG": end + 30*day, "IDEMPOTENCY": end + 7*day, "CONFIG": 0, "EVENT": 0, "COUNTS": 0,
		"MARKER": 0, "OUTBOX": 0, "LEASE": 0, "ENTRY": end + 90*day, "ENTRIES": 0, "EXCLUDED": end + 90*day, "DRAW": 0,
		"WINNERS": end + 90*day, "ENTRY_LIST": end + 90*day, "RANKS": end + 90*day, "OPEN_DRAW": 0,
	})
}

const day = 24 * 3600

// requireLayout checks that the table has items of exactly these types with these expiry times.
func (w *environment) requireLayout(t *testing.T, expiry map[string]int64) {
	t.Helper()
	seen := map[string]bool{}
	status := regexp.MustCompile("RECEIVED|QUEUED|PROCESSING|SUCCEEDED|REJECTED|FAILED")
	for _, it := range w.scan(t) {
		d := pkgdynamo.Reader{Item: it}
		entity := d.String("entityType")
		want, known := expiry[entity]
		require.True(t, known, "%q", entity)
		require.Equal(t, want, d.Number("ttl"), entity)
		seen[entity] = true
		for name := range it {
			require.True(t, entity == "REQUEST" || !strings.HasPrefix(name, "GSI"), "%s on %s", name, entity)
		}
		for _, key := range []string{"SK", "GSI1SK", "GSI2SK"} {
			require.NotRegexp(t, status, d.String(key), entity)
		}
		require.NoError(t, d.Err())
	}
	require.Len(t, seen, len(expiry), "%v", seen)
}

// Users find their requests as long as these are stored, even after their locks have expired.
func TestMineOutlivesTheLock(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event, other := r.promotion(t), r.promotion(t)
	id := r.applied(t, event, "ann").GetRequestId()
	r.applied(t, other, "ann")
	failed := r.request(t, r.applied(t, event, "bob").GetRequestId())
	require.NoError(t, r.store.End(t.Context(), []promotion.Change{
		failed.Ended(start.UnixMilli(), promotion.FailedFinal, promotion.FailedIngestEnqueue),
	}))
	w.clock.Set(start.Add((1 + 7) * 24 * time.Hour))
	tx := r.store.Begin()
	tx.Delete(0, table.LockKey(event, "ann"), table.Present())
	require.NoError(t, tx.Commit(t.Context()))
	myRequest := func(name string) (*ingestv1.EventRequest, error) {
		return r.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user(name), EventId: event})
	}
	got, err := myRequest("ann")
	require.NoError(t, err)
	require.Equal(t, id, got.GetRequestId())
	for _, none := range []string{"bob", "zoe"} {
		_, err = myRequest(none)
		require.Equal(t, "REQUEST_NOT_FOUND", reason(err))
	}
	w.clock.Set(start.Add((1 + 90) * 24 * time.Hour))
	_, err = myRequest("ann")
	require.Equal(t, "REQUEST_NOT_FOUND", reason(err))
}
