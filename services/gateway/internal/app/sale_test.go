package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waittest"
	"urr.guru/pkg/wire"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// sells lets queue say where the sale of busy stands, and waits until the gateway's polls say it.
func (w *world) sells(status string) {
	w.t.Helper()
	line := &queuev1.Line{EventId: busy, Epoch: epoch, SaleStatus: status}
	w.say(&queuev1.WatchLinesResponse{Lines: []*queuev1.Line{line}})
	waittest.Until(w.t, func() bool { return w.gateway.Rooms.Get(busy).Sale == status }, "the sale is %q", status)
}

// TestWaitingRoomsSayWhereTheSaleStands: the answers of tier 1 say what queue said last, whoever
// answers them.
func TestWaitingRoomsSayWhereTheSaleStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, id := w.visitor()
	answers := func() map[string]any {
		said := map[string]any{}
		for name, path := range map[string]string{"serving": "serving/busy", "status": "status/busy"} {
			said[name] = jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/"+path, "", nil))["saleStatus"]
		}
		check := "/vwr-api/vwr/check/busy/" + requestID
		said["check"] = jsonOf(t, w.do(http.MethodGet, check, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000))))["saleStatus"]
		said["check by vwr"] = jsonOf(t, w.do(http.MethodGet, check, "", c))["saleStatus"]
		return said
	}
	all := func(status any) map[string]any {
		return map[string]any{"serving": status, "status": status, "check": status, "check by vwr": status}
	}
	require.Equal(t, all(nil), answers(), "nobody has said it yet")
	w.sells("SCHEDULED")
	require.Equal(t, all("SCHEDULED"), answers())

	before := w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Header().Get("ETag")
	known := credentials{"If-None-Match": before}
	require.Equal(t, http.StatusNotModified, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", known).Code)
	w.sells("ON_SALE")
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", known).Code)

	w.say(nil) // the stream breaks; the next message is of another one, whose snapshot has not come
	w.line(calm, epoch+1, 0)
	require.Equal(t, all("ON_SALE"), answers(), "the last word")
	// As a queue of the release before, or one that has just started.
	w.say(&queuev1.WatchLinesResponse{Lines: []*queuev1.Line{{EventId: busy, Epoch: epoch}}, Snapshot: true})
	w.line(calm, epoch+2, 0)
	require.Equal(t, all("ON_SALE"), answers())
	w.clock.Advance(10 * time.Second)
	w.sells("")
	require.Equal(t, all(nil), answers())
}

// TestLineSaysWhereTheSaleStands: so do the answers of tier 2, if queue says it.
func TestLineSaysWhereTheSaleStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	routes := map[string]string{"check": http.MethodPost, "status": http.MethodGet, "heartbeat": http.MethodPost}
	for _, status := range []*string{nil, new("PAUSED")} {
		w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
			return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{Status: "queued", SaleStatus: status}}}
		}
		for call, method := range routes {
			answer := jsonOf(t, w.do(method, "/api/v1/queue/"+call+"/calm", "", w.session(alice)))
			said, known := answer["saleStatus"]
			require.Equal(t, status != nil, known, call)
			if known {
				require.Equal(t, *status, said, call)
			}
		}
	}
}

// TestAnswersWithASaleAreAsDocumented: the members of the answers written by hand are those of their
// messages.
func TestAnswersWithASaleAreAsDocumented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sells("SOLD_OUT")
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
			rec := w.do(r.Method, target(r, busy), "", rightFor(w, r))
			require.Equal(t, "SOLD_OUT", jsonOf(t, rec)["saleStatus"], id)
			require.NoError(t, wire.Unmarshal(rec.Body.Bytes(), r.Answer.ProtoReflect().New().Interface()), "%s: %s", r, rec.Body)
		}
	}
}
