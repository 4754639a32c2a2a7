package app_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// callLog records calls with their callers. Its zero value is ready for use.
type callLog struct {
	mu    sync.Mutex
	calls []call
}

type call struct {
	method string
	caller *commonv1.Caller
	msg    any
}

func (r *callLog) add(method string, c *commonv1.Caller, msg any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call{method, c, msg})
}

// of returns the calls of one method so far.
func (r *callLog) of(method string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []call
	for _, c := range r.calls {
		if c.method == method {
			out = append(out, c)
		}
	}
	return out
}

// take returns the calls since the last take, and forgets them.
func (r *callLog) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.calls
	r.calls = nil
	return out
}

// methods returns the names of all calls so far.
func (r *callLog) methods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, c := range r.calls {
		out = append(out, c.method)
	}
	return out
}

// fakeVWR assigns position 7 to everybody, and responds to checks with what checkResult returns.
type fakeVWR struct {
	vwrv1.UnimplementedVwrServiceServer
	vwrv1.UnimplementedVwrAdminServiceServer
	callLog

	// down ends the stream within a second, and keeps it broken.
	down atomic.Bool
	// stalled makes the stream say, with each message, that the replica has lost its store.
	stalled     atomic.Bool
	checkResult func(*vwrv1.CheckItem) *vwrv1.CheckResult
	// roomsMu guards rooms, the current states by event, and changed, which is closed by the next report.
	roomsMu sync.Mutex
	rooms   map[string]*vwrv1.Counter
	changed chan struct{}
}

func newFakeVWR(rooms ...*vwrv1.Counter) *fakeVWR {
	f := &fakeVWR{rooms: map[string]*vwrv1.Counter{}, changed: make(chan struct{})}
	f.report(rooms...)
	return f
}

// report changes rooms. It reaches a gateway also if the stream that would have sent it breaks.
func (f *fakeVWR) report(rooms ...*vwrv1.Counter) {
	f.roomsMu.Lock()
	defer f.roomsMu.Unlock()
	for _, c := range rooms {
		f.rooms[c.GetEventId()] = proto.CloneOf(c)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeVWR) current() (rooms []*vwrv1.Counter, changed <-chan struct{}) {
	f.roomsMu.Lock()
	defer f.roomsMu.Unlock()
	return slices.Collect(maps.Values(f.rooms)), f.changed
}

func (f *fakeVWR) GetCounters(_ context.Context, in *vwrv1.GetCountersRequest) (*vwrv1.GetCountersResponse, error) {
	rooms, _ := f.current()
	unasked := func(c *vwrv1.Counter) bool { return !slices.Contains(in.GetEventIds(), c.GetEventId()) }
	return &vwrv1.GetCountersResponse{Counters: slices.DeleteFunc(rooms, unasked)}, nil
}

func (f *fakeVWR) Assign(_ context.Context, in *vwrv1.AssignRequest) (*vwrv1.AssignResponse, error) {
	out := &vwrv1.AssignResponse{}
	for _, i := range in.GetItems() {
		f.add("Assign", i.GetCaller(), i)
		out.Results = append(out.Results, &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Assigned{Assigned: &vwrv1.Assigned{
			RequestId: requestID, Position: 7, EstimatedWait: new(int64(1)), NextPoll: 2, Ticket: "t",
		}}})
	}
	return out, nil
}

func (f *fakeVWR) Check(_ context.Context, in *vwrv1.CheckRequest) (*vwrv1.CheckResponse, error) {
	out := &vwrv1.CheckResponse{}
	for _, i := range in.GetItems() {
		f.add("Check", i.GetCaller(), i)
		out.Results = append(out.Results, f.checkResult(i))
	}
	return out, nil
}

func (f *fakeVWR) WatchCounters(_ *vwrv1.WatchCountersRequest, s grpc.ServerStreamingServer[vwrv1.WatchCountersResponse]) error {
	for snapshot := true; !f.down.Load(); snapshot = false {
		rooms, changed := f.current()
		if err := s.Send(&vwrv1.WatchCountersResponse{Counters: rooms, Snapshot: snapshot, Stalled: f.stalled.Load()}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-changed:
		case <-time.After(time.Second):
		}
	}
	return errs.ErrUnavailable
}

// recordAdminCall records a call and returns the status of a room that is active or not.
func (f *fakeVWR) recordAdminCall(method string, c *commonv1.Caller, event string, active bool) (*vwrv1.VwrStatus, error) {
	f.add(method, c, nil)
	return &vwrv1.VwrStatus{EventId: event, IsActive: active, ActivatedAt: round, Batch: 500, IntervalSeconds: 10}, nil
}

func (f *fakeVWR) Activate(_ context.Context, in *vwrv1.ActivateRequest) (*vwrv1.VwrStatus, error) {
	return f.recordAdminCall("Activate", in.GetCaller(), in.GetEventId(), true)
}

func (f *fakeVWR) Deactivate(_ context.Context, in *vwrv1.DeactivateRequest) (*vwrv1.VwrStatus, error) {
	return f.recordAdminCall("Deactivate", in.GetCaller(), in.GetEventId(), false)
}

func (f *fakeVWR) Advance(_ context.Context, in *vwrv1.AdvanceRequest) (*vwrv1.VwrStatus, error) {
	return f.recordAdminCall("Advance", in.GetCaller(), in.GetEventId(), true)
}

func (f *fakeVWR) GetStatus(_ context.Context, in *vwrv1.GetStatusRequest) (*vwrv1.VwrStatus, error) {
	return f.recordAdminCall("GetStatus", in.GetCaller(), in.GetEventId(), in.GetEventId() == busy)
}

// fakeQueue reports every slot as active, except those in ended.
type fakeQueue struct {
	queuev1.UnimplementedQueueServiceServer
	queuev1.UnimplementedQueueAdminServiceServer
	callLog

	// lines are sent to the gateway. A nil breaks the stream.
	lines chan *queuev1.WatchLinesResponse
	place func(*queuev1.LineItem) *queuev1.LineResult
	// endedMu guards ended.
	endedMu sync.Mutex
	ended   map[string]bool
	down    bool
	// noLines makes GetLine fail.
	noLines atomic.Bool
}

func (f *fakeQueue) answer(method string, in *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	out := &queuev1.LineResponse{}
	for _, i := range in.GetItems() {
		f.add(method, i.GetCaller(), i)
		out.Results = append(out.Results, f.place(i))
	}
	return out, nil
}

func (f *fakeQueue) Check(_ context.Context, in *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return f.answer("Check", in)
}

func (f *fakeQueue) Status(_ context.Context, in *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return f.answer("Status", in)
}

func (f *fakeQueue) Heartbeat(_ context.Context, in *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return f.answer("Heartbeat", in)
}

func (f *fakeQueue) Leave(_ context.Context, in *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
	f.add("Leave", in.GetCaller(), in)
	return &queuev1.LeaveResponse{}, nil
}

func (f *fakeQueue) end(slot string) {
	f.endedMu.Lock()
	defer f.endedMu.Unlock()
	f.ended[slot] = true
}

func (f *fakeQueue) VerifySlots(_ context.Context, in *queuev1.VerifySlotsRequest) (*queuev1.VerifySlotsResponse, error) {
	f.endedMu.Lock()
	defer f.endedMu.Unlock()
	if f.down {
		return nil, errs.ErrUnavailable
	}
	out := &queuev1.VerifySlotsResponse{}
	for _, i := range in.GetItems() {
		f.add("VerifySlots", nil, i)
		out.Results = append(out.Results, &queuev1.SlotResult{Active: !f.ended[i.GetSlotId()]})
	}
	return out, nil
}

func (f *fakeQueue) WatchLines(_ *queuev1.WatchLinesRequest, s grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error {
	for {
		select {
		case <-s.Context().Done():
			return nil
		case l := <-f.lines:
			if l == nil {
				return errs.ErrUnavailable
			}
			if err := s.Send(l); err != nil {
				return err
			}
		case <-time.After(time.Second): // a heartbeat, as of the queue service
			if err := s.Send(&queuev1.WatchLinesResponse{}); err != nil {
				return err
			}
		}
	}
}

func (f *fakeQueue) SetThreshold(_ context.Context, in *queuev1.SetThresholdRequest) (*queuev1.LineStatus, error) {
	f.add("SetThreshold", in.GetCaller(), in)
	return &queuev1.LineStatus{EventId: in.GetEventId(), Threshold: in.GetThreshold()}, nil
}

func (f *fakeQueue) Pause(_ context.Context, in *queuev1.PauseRequest) (*queuev1.LineStatus, error) {
	f.add("Pause", in.GetCaller(), in)
	return &queuev1.LineStatus{EventId: in.GetEventId(), Paused: true, Pauses: []string{"OPERATOR"}}, nil
}

func (f *fakeQueue) Resume(_ context.Context, in *queuev1.ResumeRequest) (*queuev1.LineStatus, error) {
	f.add("Resume", in.GetCaller(), in)
	return &queuev1.LineStatus{EventId: in.GetEventId()}, nil
}

func (f *fakeQueue) Revoke(_ context.Context, in *queuev1.RevokeRequest) (*queuev1.RevokeResponse, error) {
	f.add("Revoke", in.GetCaller(), in)
	return &queuev1.RevokeResponse{EventId: in.GetEventId(), UserId: in.GetUserId()}, nil
}

func (f *fakeQueue) Block(_ context.Context, in *queuev1.BlockRequest) (*queuev1.BlockResponse, error) {
	f.add("Block", in.GetCaller(), in)
	return &queuev1.BlockResponse{EventId: in.GetEventId(), UserId: in.GetUserId(), Blocked: true}, nil
}

func (f *fakeQueue) Unblock(_ context.Context, in *queuev1.UnblockRequest) (*queuev1.UnblockResponse, error) {
	f.add("Unblock", in.GetCaller(), in)
	return &queuev1.UnblockResponse{EventId: in.GetEventId(), UserId: in.GetUserId()}, nil
}

func (f *fakeQueue) GetLine(_ context.Context, in *queuev1.GetLineRequest) (*queuev1.LineStatus, error) {
	f.add("GetLine", in.GetCaller(), in)
	if f.noLines.Load() {
		return nil, errs.ErrUnavailable
	}
	return &queuev1.LineStatus{EventId: in.GetEventId(), Waiting: 30, Active: 20}, nil
}
