package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/wire"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// setSale sends the sale status of busy as the queue service does, and waits until it has arrived.
func (w *fixture) setSale(status string) {
	w.t.Helper()
	send := w.lineReport(&queuev1.Line{EventId: busy, Epoch: epoch, SaleStatus: status})
	w.tell(send, func() bool { return w.gateway.Rooms.Get(busy).Sale == status }, "the sale is %q", status)
}

// Tier-1 responses, from memory or from the vwr service, have the last reported sale status.
func TestRoomResponsesHaveSaleStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	answers := func() map[string]any {
		statuses := map[string]any{}
		for name, path := range map[string]string{"serving": "serving/busy", "status": "status/busy"} {
			statuses[name] = jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/"+path, "", nil))["saleStatus"]
		}
		check := "/vwr-api/vwr/check/busy/" + requestID
		statuses["check"] = jsonOf(t, w.do(http.MethodGet, check, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000))))["saleStatus"]
		statuses["check by vwr"] = jsonOf(t, w.do(http.MethodGet, check, "", c))["saleStatus"]
		return statuses
	}
	all := func(status any) map[string]any {
		return map[string]any{"serving": status, "status": status, "check": status, "check by vwr": status}
	}
	require.Equal(t, all(nil), answers(), "unknown at first")
	w.setSale("SCHEDULED")
	require.Equal(t, all("SCHEDULED"), answers())

	before := w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Header().Get("ETag")
	conditional := credentials{"If-None-Match": before}
	require.Equal(t, http.StatusNotModified, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", conditional).Code)
	w.setSale("ON_SALE")
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", conditional).Code)

	w.sendLines(nil) // the stream breaks; the next message is from a new stream, before its snapshot
	w.line(calm, epoch+1, 0)
	require.Equal(t, all("ON_SALE"), answers(), "the last status stays")
	// This is the snapshot of a replica of the queue service that has just started.
	w.sendLines(&queuev1.WatchLinesResponse{Lines: []*queuev1.Line{{EventId: busy, Epoch: epoch}}, Snapshot: true})
	w.line(calm, epoch+2, 0)
	require.Equal(t, all("ON_SALE"), answers())
	w.clock.Advance(10 * time.Second)
	w.setSale("")
	require.Equal(t, all(nil), answers())
}

// Tier 1 estimates no wait while the line admits nobody or the serving counter stands still.
func TestNoEstimateWhileNobodyIsLetIn(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	w.vwr.checkResult = func(*vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: &vwrv1.Checked{Position: 4000, EstimatedWait: new(int64(5))}}}
	}
	estimates := func() (known []bool) {
		check := "/vwr-api/vwr/check/busy/" + requestID
		for _, answer := range []map[string]any{
			jsonOf(t, w.do(http.MethodGet, check, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000)))),
			jsonOf(t, w.do(http.MethodGet, check, "", c)), jsonOf(t, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", c)),
		} {
			_, estimated := answer["estimatedWait"]
			known = append(known, estimated)
		}
		return known
	}
	sale := func(halted string) func(bool) func() {
		return func(halt bool) func() {
			status := map[bool]string{true: halted, false: "ON_SALE"}[halt]
			return w.lineReport(&queuev1.Line{EventId: busy, Epoch: epoch, SaleStatus: status})
		}
	}
	for name, report := range map[string]func(halt bool) (send func()){
		"sale paused": sale("PAUSED"), "sold out": sale("SOLD_OUT"),
		"paused": func(halt bool) func() {
			return w.lineReport(&queuev1.Line{EventId: busy, Epoch: epoch, SaleStatus: "ON_SALE", Paused: halt})
		},
		"stalled": func(halt bool) func() {
			room := &vwrv1.Counter{EventId: busy, Active: true, Round: round, Serving: 100, Issued: 5000, Rate: 50, Stalled: halt}
			return func() { w.vwr.report(room) }
		},
	} {
		for _, halt := range []bool{true, false} {
			w.tell(report(halt), func() bool { return w.gateway.Rooms.Get(busy).Halted() == halt }, "%s: %v", name, halt)
			require.Equal(t, []bool{!halt, !halt, !halt}, estimates(), "%s: %v", name, halt)
		}
	}
}

// Tier-2 responses have the sale status if the queue service sends it.
func TestLineResponsesHaveSaleStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	routes := map[string]string{"check": http.MethodPost, "status": http.MethodGet, "heartbeat": http.MethodPost}
	for _, status := range []*string{nil, new("PAUSED")} {
		w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
			return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{Status: "queued", SaleStatus: status}}}
		}
		for call, method := range routes {
			answer := jsonOf(t, w.do(method, "/api/v1/queue/"+call+"/calm", "", w.session(alice)))
			got, known := answer["saleStatus"]
			require.Equal(t, status != nil, known, call)
			if known {
				require.Equal(t, *status, got, call)
			}
		}
	}
}

// The API reference documents saleStatus, and the hand-written responses have it.
func TestSaleStatusIsDocumented(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.setSale("SOLD_OUT")
	w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{Status: "active", SaleStatus: new("SOLD_OUT")}}}
	}
	doc := readReference(t, w)
	for id, message := range map[string]string{
		"vwr.check": "v1Checked", "vwr.status": "v1WaitingRoomStatus", "vwr.serving": "v1ServingCounter",
		"queue.check": "v1Place", "queue.status": "v1Place", "queue.heartbeat": "v1Beat",
	} {
		require.Equal(t, "string", doc.Components.Schemas[message].Properties["saleStatus"].Type, message)
		for _, r := range w.gateway.Routes() {
			if r.ID != id {
				continue
			}
			rec := w.do(r.Method, target(r, busy), "", validCredentials(w, r))
			require.Equal(t, "SOLD_OUT", jsonOf(t, rec)["saleStatus"], id)
			require.NoError(t, wire.Unmarshal(rec.Body.Bytes(), r.Answer.ProtoReflect().New().Interface()), "%s: %s", r, rec.Body)
		}
	}
}
