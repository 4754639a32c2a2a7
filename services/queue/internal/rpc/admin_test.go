package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func stamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

func (f *fixture) operator() *commonv1.Caller {
	return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
}

func TestOperatorsNeedTheRole(t *testing.T) {
	f := setup(t)
	who := &commonv1.Caller{UserId: "u", Roles: []string{"staff"}}
	_, err := f.admin.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: who, EventId: f.event, Threshold: proto.Int64(1)})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: who, EventId: f.event})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.Pause(f.ctx(), &queuev1.PauseRequest{Caller: who, EventId: f.event})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.Resume(f.ctx(), &queuev1.ResumeRequest{Caller: who, EventId: f.event})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.Revoke(f.ctx(), &queuev1.RevokeRequest{Caller: who, EventId: f.event, UserId: "a"})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.Block(f.ctx(), &queuev1.BlockRequest{Caller: who, EventId: f.event, UserId: "a"})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = f.admin.Unblock(f.ctx(), &queuev1.UnblockRequest{Caller: who, EventId: f.event, UserId: "a"})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
}

func TestThresholdAppliesAndIsStored(t *testing.T) {
	f := setup(t)
	f.open(0)
	f.check(f.item("a"))
	got, err := f.admin.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: f.operator(), EventId: f.event, Threshold: proto.Int64(7)})
	require.NoError(t, err)
	require.Equal(t, int64(7), got.GetThreshold())
	require.Equal(t, int64(1), got.GetWaiting())
	require.False(t, got.GetPaused())
	set, err := f.tickets.get(f.event)
	require.NoError(t, err)
	require.Equal(t, int64(7), set.GetThreshold())
	f.tick()
	require.Equal(t, "active", f.status(f.item("a")).GetPlace().GetStatus(), "live")
}

func TestUnusedLineHasOnlySettings(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	got, err := f.admin.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: f.operator(), EventId: f.event, Threshold: proto.Int64(7)})
	require.NoError(t, err)
	require.Equal(t, []int64{7, 0}, []int64{got.GetThreshold(), got.GetEpoch()})
	load, err := f.visitors.GetLoad(f.ctx(), &queuev1.GetLoadRequest{EventId: f.event})
	require.NoError(t, err)
	require.Zero(t, load.GetWaiting()+load.GetActive())
	n, err := f.client.Exists(f.ctx(), f.key("line")).Result()
	require.NoError(t, err)
	require.Zero(t, n, "reading creates no line")
}

func TestSettingsAreReadOnFirstUseAndThenRefreshed(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{Threshold: proto.Int64(7)})
	f.tickets.markOpened(f.event)
	p := f.check(f.item("a")).GetPlace()
	require.Equal(t, "queued", p.GetStatus(), "the line recovers")
	got, err := f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(t, err)
	require.Equal(t, int64(7), got.GetThreshold(), "without waiting for a tick")
	asked := f.tickets.count()
	for range 29 {
		f.tick()
		f.check(f.item("a"))
	}
	require.Equal(t, asked, f.tickets.count())
	f.tick()
	require.Equal(t, asked+1, f.tickets.count())
}

func TestHoldersOfLostEpochAreCounted(t *testing.T) {
	f := setup(t)
	f.open(1)
	f.enter("a")
	f.failover()
	f.tick()
	got, err := f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(t, err)
	require.Equal(t, int64(1), got.GetActive())
	require.True(t, got.GetPaused(), "it recovers")
	load, err := f.visitors.GetLoad(f.ctx(), &queuev1.GetLoadRequest{EventId: f.event})
	require.NoError(t, err)
	require.Equal(t, int64(1), load.GetActive())
	require.Equal(t, int64(1), f.check(f.item("b")).GetPlace().GetCurrentUsers())
}

func TestWatchLines(t *testing.T) {
	f := setup(t)
	stop := make(chan struct{})
	f.serve(f.client, stop)
	f.open(1)
	ctx, cancel := testkit.Context(t)
	defer cancel()
	stream, err := f.visitors.WatchLines(ctx, &queuev1.WatchLinesRequest{})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.True(t, first.GetSnapshot())
	require.Len(t, first.GetLines(), 1)
	require.Equal(t, f.event, first.GetLines()[0].GetEventId())
	epoch := first.GetLines()[0].GetEpoch()

	f.failover()
	f.tick()
	next := &queuev1.WatchLinesResponse{}
	for len(next.GetLines()) == 0 { // a heartbeat may come first
		next, err = stream.Recv()
		require.NoError(t, err)
		require.False(t, next.GetSnapshot())
	}
	require.Len(t, next.GetLines(), 1)
	require.Greater(t, next.GetLines()[0].GetEpoch(), epoch)
	require.Equal(t, f.clock().Add(30*time.Second).UnixMilli(), next.GetLines()[0].GetPauseUntil())

	close(stop)
	for err == nil {
		_, err = stream.Recv()
	}
	require.NotErrorIs(t, err, errs.ErrDeadline, "the stream ends when the process stops")
}
