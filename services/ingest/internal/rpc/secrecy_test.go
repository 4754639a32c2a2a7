package rpc_test

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/promotion"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// calls returns the calls of every method of both services that concern a request, made by its user
// or an operator. Methods that change what is compared are left out, and are in notCompared.
func (d drawing) calls(t *testing.T, name string, caller *commonv1.Caller) map[string]func(context.Context) (any, error) {
	t.Helper()
	id, op := d.ids[name], operator()
	return map[string]func(context.Context) (any, error){
		"ListPromotions": func(ctx context.Context) (any, error) {
			return d.ListPromotions(ctx, &ingestv1.ListPromotionsRequest{})
		},
		"GetPromotion": func(ctx context.Context) (any, error) {
			return d.GetPromotion(ctx, &ingestv1.GetPromotionRequest{EventId: d.event})
		},
		"Apply": func(ctx context.Context) (any, error) {
			return d.Apply(ctx, &ingestv1.ApplyRequest{Items: []*ingestv1.ApplyItem{{Caller: user(name), EventId: d.event}}})
		},
		"GetMyRequest": func(ctx context.Context) (any, error) {
			return d.GetMyRequest(ctx, &ingestv1.GetMyRequestRequest{Caller: user(name), EventId: d.event})
		},
		"ListMyRequests": func(ctx context.Context) (any, error) {
			return d.ListMyRequests(ctx, &ingestv1.ListMyRequestsRequest{Caller: user(name)})
		},
		"GetRequest": func(ctx context.Context) (any, error) {
			return d.GetRequest(ctx, &ingestv1.GetRequestRequest{Caller: caller, RequestId: id})
		},
		"GetTimeline": func(ctx context.Context) (any, error) {
			return d.GetTimeline(ctx, &ingestv1.GetTimelineRequest{Caller: caller, RequestId: id})
		},
		"WithdrawRequest": func(ctx context.Context) (any, error) {
			return d.WithdrawRequest(ctx, &ingestv1.WithdrawRequestRequest{Caller: user(name), RequestId: id})
		},
		"GetDraw": func(context.Context) (any, error) { return d.document(t, d.event), nil },
		"GetDrawEntries": func(context.Context) (any, error) {
			ids, _, _ := d.entries(t, d.event, 0, 0)
			return ids, nil
		},
		"GetDrawProof": func(ctx context.Context) (any, error) {
			p, err := d.GetDrawProof(ctx, &ingestv1.GetDrawProofRequest{EventId: d.event, RequestId: id})
			p.Index, p.Path = 0, nil // these differ, since they follow from the ids
			return p, err
		},
		"AnnouncePromotion": func(ctx context.Context) (any, error) {
			return d.admin.AnnouncePromotion(ctx, &ingestv1.AnnouncePromotionRequest{Caller: op, EventId: d.event})
		},
		"ExportWinners": func(context.Context) (any, error) { return d.exportedLines(t, d.event) },
		"ListRequests": func(ctx context.Context) (any, error) {
			page, err := d.admin.ListRequests(ctx, &ingestv1.ListRequestsRequest{Caller: op, EventId: d.event})
			var own []proto.Message
			for _, r := range page.GetItems() {
				if r.GetRequestId() == id {
					own = append(own, r)
				}
			}
			return own, err
		},
		"ListRequests SUCCEEDED": func(ctx context.Context) (any, error) {
			return d.admin.ListRequests(ctx, &ingestv1.ListRequestsRequest{Caller: op, EventId: d.event, Status: "SUCCEEDED"})
		},
		"ListRequests REJECTED_LOTTERY_LOSE": func(ctx context.Context) (any, error) {
			return d.admin.ListRequests(ctx, &ingestv1.ListRequestsRequest{Caller: op, EventId: d.event, ResultCode: "REJECTED_LOTTERY_LOSE"})
		},
		"GetSummary": func(ctx context.Context) (any, error) {
			return d.admin.GetSummary(ctx, &ingestv1.GetSummaryRequest{Caller: op, EventId: d.event})
		},
	}
}

// CreatePromotion makes another promotion. The other methods are refused for lotteries, or change
// what users see of a promotion, not of a request.
var notCompared = []string{"CreatePromotion", "ClosePromotion", "PausePromotion", "ResumePromotion", "SetExpected"}

// Before the announcement every method of both services answers the same for a winner and a loser,
// even if the draw is decided, the seed public and each result written, all too early.
func TestNothingOfAResultIsReadableEarly(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	won := map[string]bool{}
	for _, id := range d.decideDraw(t, draw) {
		won[d.users[id.String()]] = true
	}
	var winner, loser string
	for name := range d.ids {
		if won[name] {
			winner = name
		} else {
			loser = name
		}
	}
	d.announce(t, draw)
	d.writeResult(t, d.ids[winner], promotion.Succeeded, promotion.Success)
	d.writeResult(t, d.ids[loser], promotion.Rejected, promotion.RejectedLotteryLose)
	w.clock.Set(announced.Add(-time.Millisecond))

	known := map[string]bool{}
	for _, name := range notCompared {
		known[name] = true
	}
	compare := func(same bool) {
		t.Helper()
		different := 0
		for _, operates := range []bool{false, true} {
			callers := [2]*commonv1.Caller{user(winner), user(loser)}
			if operates {
				callers = [2]*commonv1.Caller{operator(), operator()}
			}
			losers := d.calls(t, loser, callers[1])
			for method, call := range d.calls(t, winner, callers[0]) {
				known[regexp.MustCompile(`^\w+`).FindString(method)] = true
				a, b := d.answer(t, winner, call), d.answer(t, loser, losers[method])
				if a != b {
					different++
				}
				if same {
					require.Equal(t, a, b, method)
					require.NotRegexp(t, `SUCCE|LOTTERY_LOSE|"[sS]eed"|[wW]inners"`, a, method)
				}
			}
		}
		if !same {
			require.Greater(t, different, 8, "the comparison sees results")
		}
	}
	compare(true)
	for _, service := range []string{"IngestService", "IngestAdminService"} {
		methods := ingestv1.File_urr_ingest_v1_ingest_proto.Services().ByName(protoreflect.Name(service)).Methods()
		for i := range methods.Len() {
			require.True(t, known[string(methods.Get(i).Name())], "%s is not compared", methods.Get(i).Name())
		}
	}
	w.clock.Set(announced)
	compare(false)
}

// answer returns the result of a call, without the request's own ids, times and receipt.
func (d drawing) answer(t *testing.T, name string, call func(context.Context) (any, error)) string {
	t.Helper()
	out, err := call(t.Context())
	if err != nil {
		return reason(err)
	}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	for _, own := range []string{d.ids[name], `"` + name + `"`} {
		text = regexp.MustCompile(regexp.QuoteMeta(own)).ReplaceAll(text, []byte("own"))
	}
	return regexp.MustCompile(`"receipt":"[^"]*"|,"index":\d+`).ReplaceAllString(string(text), "")
}
