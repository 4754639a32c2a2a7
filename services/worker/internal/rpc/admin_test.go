package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/rpc"
)

type sender struct{ sent []promotion.Request }

func (s *sender) Send(_ context.Context, r promotion.Request) error {
	s.sent = append(s.sent, r)
	return errors.New("the sweeper of ingest sends it")
}

// drawer is a fake Drawer, with a draw in phase ROOT whose result is not known yet.
type drawer struct{}

func (*drawer) SubmitBeacon(_ context.Context, event, value, signature string) (promotion.Draw, error) {
	return promotion.Draw{
		EventID: event, Phase: promotion.DrawRoot, Beacon: &beacon.Round{Round: 7, Randomness: value, Signature: signature},
	}, nil
}

func (*drawer) Void(_ context.Context, event string) (promotion.Draw, error) {
	if event == "fixed" {
		return promotion.Draw{}, errs.ErrDrawFixed
	}
	return promotion.Draw{EventID: event, Phase: promotion.DrawVoid, VoidedAt: 5}, nil
}

func operator() *commonv1.Caller { return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}} }

// dead stores a failed request with its dead letter.
func dead(t *testing.T, store *dynamo.Store, user string) string {
	t.Helper()
	p := &promotion.Promotion{EventID: "demo", EventType: promotion.FirstCome, ClosesAt: time.Now().Add(time.Hour).UnixMilli()}
	r := promotion.NewRequest(p, ids.NewV7().String(), user, store.Millis())
	tx := store.Begin()
	tx.Put(0, table.LockItem(&promotion.Lock{EventID: "demo", UserID: user, RequestID: r.RequestID, EndsAt: r.EndsAt}), table.Absent())
	tx.Create(0, r.Created())
	require.NoError(t, tx.Commit(t.Context()))
	l := promotion.NewDeadLetter(r.RequestID, store.Millis())
	l.RequestID, l.EventID, l.Body, l.ErrorCode = r.RequestID, "demo", "body", "X"
	end := r.Failed(store.Millis(), promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "X"})
	require.NoError(t, store.PutDeadLetter(t.Context(), l, &end))
	return r.RequestID
}

func TestDeadLettersAndRedrive(t *testing.T) {
	t.Parallel()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	store := dynamo.New(db, tables, time.Now, func(int) {})
	queue := &sender{}
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		workerv1.RegisterWorkerAdminServiceServer(r, rpc.NewAdmin(store, queue, &drawer{}, slog.New(slog.DiscardHandler)))
	}, rpctest.WithDial(pkgrpc.WithTimeout(time.Hour)))
	client := workerv1.NewWorkerAdminServiceClient(conn)
	failed := map[string]bool{}
	var last string
	for i := range 5 {
		last = dead(t, store, fmt.Sprint("u", i))
		failed[last] = true
	}
	unreadable := promotion.NewDeadLetter("message", store.Millis())
	require.NoError(t, store.PutDeadLetter(t.Context(), unreadable, nil))
	announcement := promotion.NewDeadLetter("outbox#1", store.Millis())
	announcement.ErrorCode, announcement.Body = promotion.UnreadableAnnouncement, "[]"
	require.NoError(t, store.PutDeadLetter(t.Context(), announcement, nil))

	list := func() (letters []*workerv1.DeadLetter) {
		t.Helper()
		in := &workerv1.ListDeadLettersRequest{Caller: operator(), Limit: 2}
		for {
			page, err := client.ListDeadLetters(t.Context(), in)
			require.NoError(t, err)
			letters = append(letters, page.GetItems()...)
			if in.Cursor = page.GetNextCursor(); in.Cursor == "" {
				return letters
			}
		}
	}
	require.Len(t, list(), 7)
	one, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Ids: []string{last}})
	require.NoError(t, err)
	require.Equal(t, []string{last}, one.GetRedriven())
	require.Empty(t, one.GetNextCursor())
	again, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Ids: []string{last}})
	require.NoError(t, err)
	require.Equal(t, []string{last}, again.GetRefused(), "it has begun anew already")
	all, err := client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator()})
	require.NoError(t, err)
	require.Len(t, all.GetRedriven(), 5)
	require.Contains(t, all.GetRedriven(), announcement.ID)
	require.False(t, all.GetMore())
	require.Len(t, queue.sent, 5)
	for _, l := range list() {
		require.Equal(t, failed[l.GetRequestId()] || l.GetErrorCode() == promotion.UnreadableAnnouncement, l.RedrivenAt != nil)
	}
	for id := range failed {
		r, _, err := store.Request(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, promotion.Queued, r.Status)
		require.Equal(t, int64(1), r.Gen)
	}
	_, err = client.ListDeadLetters(t.Context(), &workerv1.ListDeadLettersRequest{Caller: &commonv1.Caller{UserId: "ann"}})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: &commonv1.Caller{UserId: "ann"}})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
}

// All dead letters are redriven, the oldest first, however many before them were redriven or
// refused already.
func TestRedriveReachesAll(t *testing.T) {
	t.Parallel()
	store := newLetters(2_500)
	for _, l := range store.letters[:2_200] {
		l.RedrivenAt = 1
	}
	store.refused = store.letters[2_250].RequestID
	queue := &sender{}
	admin := rpc.NewAdmin(store, queue, nil, slog.New(slog.DiscardHandler))
	var redriven []string
	in := &workerv1.RedriveRequestsRequest{Caller: operator()}
	for calls := 0; ; calls++ {
		require.Less(t, calls, 10)
		out, err := admin.RedriveRequests(t.Context(), in)
		require.NoError(t, err)
		require.LessOrEqual(t, len(out.GetRedriven()), 100)
		redriven = append(redriven, out.GetRedriven()...)
		require.Equal(t, out.GetMore(), out.GetNextCursor() != "")
		if in.Cursor = out.GetNextCursor(); !out.GetMore() {
			break
		}
	}
	var want []string
	for _, l := range slices.Concat(store.letters[2_200:2_250], store.letters[2_251:]) {
		want = append(want, l.RequestID)
	}
	require.Equal(t, want, redriven)
	for i, r := range queue.sent {
		require.Equal(t, want[i], r.RequestID, "they are sent in this order")
	}
	_, err := admin.RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Cursor: "?"})
	require.ErrorIs(t, err, errs.ErrInvalidCursor)
}

// Requests given by their ids are redriven in the order of their acceptance.
func TestRedriveByIDKeepsTheOrder(t *testing.T) {
	t.Parallel()
	store := newLetters(300)
	ids := []string{store.letters[9].RequestID, store.letters[250].RequestID, store.letters[2].RequestID}
	out, err := rpc.NewAdmin(store, &sender{}, nil, slog.New(slog.DiscardHandler)).
		RedriveRequests(t.Context(), &workerv1.RedriveRequestsRequest{Caller: operator(), Ids: ids})
	require.NoError(t, err)
	require.Equal(t, []string{ids[2], ids[0], ids[1]}, out.GetRedriven())
	require.NotZero(t, store.letters[2].RedrivenAt)
	require.Zero(t, store.letters[3].RedrivenAt)
}

// letters has dead letters in memory, the oldest first.
type letters struct {
	letters []*promotion.DeadLetter
	refused string
}

func newLetters(n int) *letters {
	s := &letters{}
	for i := range n {
		l := promotion.NewDeadLetter(ids.NewV7().String(), int64(i+1))
		_, l.RequestID, _ = strings.Cut(l.ID, "#")
		s.letters = append(s.letters, &l)
	}
	return s
}

func (s *letters) DeadLetters(_ context.Context, after string, limit int) ([]promotion.DeadLetter, string, error) {
	return pageOf(slices.Backward(s.letters), after, limit)
}

func (s *letters) OldestDeadLetters(_ context.Context, after string, limit int) ([]promotion.DeadLetter, string, error) {
	return pageOf(slices.All(s.letters), after, limit)
}

func pageOf(all iter.Seq2[int, *promotion.DeadLetter], after string, limit int) (page []promotion.DeadLetter, next string, _ error) {
	behind := after == ""
	for _, l := range all {
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		if behind {
			page = append(page, *l)
		}
		behind = behind || l.ID == after
	}
	return page, "", nil
}

func (s *letters) MarkRedriven(_ context.Context, l promotion.DeadLetter) error {
	for _, letter := range s.letters {
		if letter.ID == l.ID {
			letter.RedrivenAt = 5
		}
	}
	return nil
}

func (s *letters) RedriveAnnouncement(context.Context, promotion.DeadLetter) error {
	return errors.New("there are none")
}

func (s *letters) Redrive(_ context.Context, id string) (promotion.Request, error) {
	if id == s.refused {
		return promotion.Request{}, promotion.ErrNotRedrivable
	}
	return promotion.Request{RequestID: id}, nil
}

func TestOperatorsOfDraws(t *testing.T) {
	t.Parallel()
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		workerv1.RegisterWorkerAdminServiceServer(r, rpc.NewAdmin(nil, nil, &drawer{}, slog.New(slog.DiscardHandler)))
	})
	client := workerv1.NewWorkerAdminServiceClient(conn)
	value, signature := strings.Repeat("0f", 32), strings.Repeat("a", 96)
	state, err := client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: operator(), EventId: "demo", Value: value, Signature: signature})
	require.NoError(t, err)
	require.Equal(t, "ROOT", state.GetPhase())
	require.Equal(t, uint64(7), state.GetRound())
	state, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: operator(), EventId: "demo"})
	require.NoError(t, err)
	require.Equal(t, int64(5), state.GetVoidedAt())
	_, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: operator(), EventId: "fixed"})
	require.ErrorIs(t, errs.From(err), errs.ErrDrawFixed)

	user := &commonv1.Caller{UserId: "ann"}
	_, err = client.VoidPromotion(t.Context(), &workerv1.VoidPromotionRequest{Caller: user, EventId: "demo"})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: user, EventId: "demo", Value: value, Signature: signature})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
	_, err = client.SubmitBeacon(t.Context(), &workerv1.SubmitBeaconRequest{Caller: operator(), EventId: "demo", Value: "x", Signature: signature})
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest)
}
