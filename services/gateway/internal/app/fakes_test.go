package app_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
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

type fakePayment struct {
	paymentv1.UnimplementedPaymentServiceServer
	paymentv1.UnimplementedRefundServiceServer
	paymentv1.UnimplementedRefundAdminServiceServer
	paymentv1.UnimplementedDisputeAdminServiceServer
	paymentv1.UnimplementedDifferenceAdminServiceServer
	paymentv1.UnimplementedPaymentAdminServiceServer
	callLog
	// down makes FindPayments fail.
	down atomic.Bool
}

func (f *fakePayment) register(r grpc.ServiceRegistrar) {
	paymentv1.RegisterPaymentServiceServer(r, f)
	paymentv1.RegisterRefundServiceServer(r, f)
	paymentv1.RegisterRefundAdminServiceServer(r, f)
	paymentv1.RegisterDisputeAdminServiceServer(r, f)
	paymentv1.RegisterDifferenceAdminServiceServer(r, f)
	paymentv1.RegisterPaymentAdminServiceServer(r, f)
}

func (f *fakePayment) ListProviders(_ context.Context, in *paymentv1.ListProvidersRequest) (*paymentv1.ListProvidersResponse, error) {
	f.add("ListProviders", in.GetCaller(), in)
	return &paymentv1.ListProvidersResponse{Providers: []string{"sandbox"}}, nil
}

func (f *fakePayment) CancelPayment(_ context.Context, in *paymentv1.CancelPaymentRequest) (*paymentv1.Payment, error) {
	f.add("CancelPayment", in.GetCaller(), in)
	return &paymentv1.Payment{PaymentId: in.GetPaymentId(), Status: "EXPIRED"}, nil
}

func (f *fakePayment) ReturnPayment(_ context.Context, in *paymentv1.ReturnPaymentRequest) (*paymentv1.ReturnPaymentResponse, error) {
	if in.GetProvider() != "sandbox" || in.GetParams()["token"] != "t" {
		return nil, errs.ErrPaymentNotFound
	}
	status := "OPEN"
	if in.GetLooks() {
		status = "PENDING"
	}
	paymentType := "reservation"
	if suffix, found := strings.CutPrefix(in.GetParams()["orderId"], "o-"); found && suffix != "1" {
		paymentType = suffix
	}
	return &paymentv1.ReturnPaymentResponse{PaymentId: "p-1", PaymentType: paymentType, ReferenceId: requestID, Status: status}, nil
}

func (f *fakePayment) RefundPayment(_ context.Context, in *paymentv1.RefundPaymentRequest) (*paymentv1.Refund, error) {
	f.add("RefundPayment", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "PENDING"}, nil
}

func (f *fakePayment) RefundMembership(_ context.Context, in *paymentv1.RefundMembershipRequest) (*paymentv1.Refund, error) {
	f.add("RefundMembership", in.GetCaller(), in)
	return &paymentv1.Refund{}, nil
}

func (f *fakePayment) RefundAnyPayment(_ context.Context, in *paymentv1.RefundAnyPaymentRequest) (*paymentv1.Refund, error) {
	f.add("RefundAnyPayment", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "PENDING"}, nil
}

func (f *fakePayment) AssignByHand(_ context.Context, in *paymentv1.AssignByHandRequest) (*paymentv1.Refund, error) {
	f.add("AssignByHand", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: requestID, PaymentId: in.GetPaymentId(), Status: "DONE"}, nil
}

func (f *fakePayment) ListRefunds(_ context.Context, in *paymentv1.ListRefundsRequest) (*paymentv1.ListRefundsResponse, error) {
	f.add("ListRefunds", in.GetCaller(), in)
	return &paymentv1.ListRefundsResponse{}, nil
}

func (f *fakePayment) HoldRefund(_ context.Context, in *paymentv1.HoldRefundRequest) (*paymentv1.Refund, error) {
	f.add("HoldRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "HELD"}, nil
}

func (f *fakePayment) RetryRefund(_ context.Context, in *paymentv1.RetryRefundRequest) (*paymentv1.Refund, error) {
	f.add("RetryRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "PENDING"}, nil
}

func (f *fakePayment) ResolveRefund(_ context.Context, in *paymentv1.ResolveRefundRequest) (*paymentv1.Refund, error) {
	f.add("ResolveRefund", in.GetCaller(), in)
	return &paymentv1.Refund{RefundId: in.GetRefundId(), Status: "DONE"}, nil
}

func (f *fakePayment) ListDisputes(_ context.Context, in *paymentv1.ListDisputesRequest) (*paymentv1.ListDisputesResponse, error) {
	f.add("ListDisputes", in.GetCaller(), in)
	return &paymentv1.ListDisputesResponse{}, nil
}

func (f *fakePayment) ListDifferences(_ context.Context, in *paymentv1.ListDifferencesRequest) (*paymentv1.ListDifferencesResponse, error) {
	f.add("ListDifferences", in.GetCaller(), in)
	return &paymentv1.ListDifferencesResponse{}, nil
}

func (f *fakePayment) CloseDifference(_ context.Context, in *paymentv1.CloseDifferenceRequest) (*paymentv1.Difference, error) {
	f.add("CloseDifference", in.GetCaller(), in)
	return &paymentv1.Difference{DifferenceId: in.GetDifferenceId(), Status: "CLOSED"}, nil
}

func (f *fakePayment) Prepare(_ context.Context, in *paymentv1.PrepareRequest) (*paymentv1.PrepareResponse, error) {
	f.add("Prepare", in.GetCaller(), in)
	return &paymentv1.PrepareResponse{PaymentId: requestID, Amount: 55000}, nil
}

func (f *fakePayment) Confirm(_ context.Context, in *paymentv1.ConfirmRequest) (*paymentv1.ConfirmResponse, error) {
	f.add("Confirm", in.GetCaller(), in)
	return &paymentv1.ConfirmResponse{Status: "CONFIRMED"}, nil
}

func (f *fakePayment) GetPayment(_ context.Context, in *paymentv1.GetPaymentRequest) (*paymentv1.Payment, error) {
	f.add("GetPayment", in.GetCaller(), in)
	return &paymentv1.Payment{PaymentId: in.GetPaymentId(), ReferenceId: requestID}, nil
}

func (f *fakePayment) HandleWebhook(_ context.Context, in *paymentv1.HandleWebhookRequest) (*paymentv1.HandleWebhookResponse, error) {
	f.add("HandleWebhook", nil, in)
	return &paymentv1.HandleWebhookResponse{}, nil
}

type fakeStats struct {
	statsv1.UnimplementedStatsServiceServer
	callLog
}

func (f *fakeStats) GetEventStats(_ context.Context, in *statsv1.GetEventStatsRequest) (*statsv1.EventStats, error) {
	f.add("GetEventStats", nil, in)
	return &statsv1.EventStats{EventId: in.GetEventId()}, nil
}

func (f *fakeStats) GetEventStatsForOperators(_ context.Context, in *statsv1.GetEventStatsForOperatorsRequest) (*statsv1.OperatorEventStats, error) {
	f.add("GetEventStatsForOperators", in.GetCaller(), in)
	return &statsv1.OperatorEventStats{
		Counts: &statsv1.EventStats{EventId: in.GetEventId(), SeatsSold: 30, Rejected: 1}, Rewards: &statsv1.RewardStats{Failed: 2},
		Requests: &statsv1.RequestStats{Failed: 4},
	}, nil
}

func (f *fakeStats) GetEventSeries(_ context.Context, in *statsv1.GetEventSeriesRequest) (*statsv1.EventSeries, error) {
	f.add("GetEventSeries", nil, in)
	return &statsv1.EventSeries{Items: []*statsv1.SeriesPoint{{At: in.GetFrom(), Created: 3, SeatsSold: -1}}}, nil
}

// fakeFigures returns figures with revenue in two currencies.
func fakeFigures() *statsv1.Figures {
	return &statsv1.Figures{Created: 3, SeatsSold: -1, Revenue: []*statsv1.Revenue{
		{Currency: "EUR", Confirmed: 5, Net: 5, Payments: 1, ByCause: &statsv1.MoneyByCause{Membership: 5}},
		{Currency: "KRW", Confirmed: 70, Refunded: 80, Net: -10, Payments: 1, Refunds: 2, ByCause: &statsv1.MoneyByCause{Sale: 70, SaleRefund: 80}},
	}}
}

func (f *fakeStats) GetEventSeriesForOperators(_ context.Context, in *statsv1.GetEventSeriesForOperatorsRequest) (*statsv1.OperatorEventSeries, error) {
	f.add("GetEventSeriesForOperators", in.GetCaller(), in)
	return &statsv1.OperatorEventSeries{Items: []*statsv1.OperatorSeriesPoint{{At: in.GetFrom(), Figures: fakeFigures()}}}, nil
}

// ListDays returns two pages. The second one fails for the event "broken".
func (f *fakeStats) ListDays(_ context.Context, in *statsv1.ListDaysRequest) (*statsv1.ListDaysResponse, error) {
	f.add("ListDays", in.GetCaller(), in)
	switch {
	case in.GetCursor() == "":
		first := &statsv1.EventDay{Day: in.GetFrom(), EventId: "calm", TimeZone: "Asia/Seoul", Figures: fakeFigures()}
		return &statsv1.ListDaysResponse{Items: []*statsv1.EventDay{first}, NextCursor: "2"}, nil
	case in.GetEventId() == "broken":
		return nil, errs.ErrUnavailable
	default:
		return &statsv1.ListDaysResponse{Items: []*statsv1.EventDay{{Day: in.GetTo(), TimeZone: "Asia/Seoul", Figures: &statsv1.Figures{}}}}, nil
	}
}

func (f *fakeStats) ListActs(_ context.Context, in *statsv1.ListActsRequest) (*statsv1.ListActsResponse, error) {
	f.add("ListActs", in.GetCaller(), in)
	return &statsv1.ListActsResponse{}, nil
}
