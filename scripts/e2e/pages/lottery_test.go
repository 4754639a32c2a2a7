package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lottery is a proxy in front of the platform that answers for one lottery as the test decides: a
// real lottery takes minutes from its cutoff to its result.
type lottery struct {
	event, request string

	mu         sync.Mutex
	promotion  object
	ownRequest object // the visitor's request; nil: none
	draw       object
}

func openLottery(t *testing.T) (base string, l *lottery) {
	t.Helper()
	l = &lottery{event: uniqueID("lottery"), request: "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20"}
	now := time.Now().UTC()
	l.promotion = object{
		"eventId": l.event, "title": "Front row lottery", "eventType": "LOTTERY", "capacityTotal": 20, "status": "Open",
		"opensAt": now.Add(-time.Hour), "closesAt": now.Add(time.Hour), "lotteryCutoffAt": now.Add(time.Hour), "announcedAt": now.Add(2 * time.Hour),
	}
	path := "/api/v1/promotions/" + l.event
	base = intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch r.Method + " " + r.URL.Path {
		case "GET " + path:
			writeJSON(w, http.StatusOK, l.promotion)
		case "GET " + path + "/me":
			if l.ownRequest == nil {
				writeProblem(w, http.StatusNotFound, `{"status": 404, "code": "REQUEST_NOT_FOUND"}`)
			} else {
				writeJSON(w, http.StatusOK, l.ownRequest)
			}
		case "POST " + path + "/requests":
			l.ownRequest = object{
				"requestId": l.request, "eventId": l.event, "eventType": "LOTTERY", "status": "QUEUED", "uiResult": "PENDING",
				"uiPhase": "COLLECTING", "requestedAt": time.Now().UnixMilli(), "receipt": "c2lnbmVk",
			}
			w.Header().Set("Retry-After", "1")
			writeJSON(w, http.StatusAccepted, object{
				"requestId": l.request, "status": "QUEUED", "uiResult": "PENDING", "uiPhase": "COLLECTING", "duplicate": false, "receipt": "c2lnbmVk",
			})
		case "DELETE /api/v1/requests/" + l.request:
			l.ownRequest["status"], l.ownRequest["uiResult"], l.ownRequest["resultCode"] = "REJECTED", "REJECTED", "REJECTED_WITHDRAWN"
			w.WriteHeader(http.StatusNoContent)
		case "GET /api/v1/draws/" + l.event:
			writeJSON(w, http.StatusOK, l.draw)
		default:
			return false
		}
		return true
	})
	return base, l
}

// set changes the promotion's status, and fields of the visitor's request.
func (l *lottery) set(status string, request object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.promotion["status"] = status
	if l.ownRequest == nil && request != nil {
		l.ownRequest = object{"requestId": l.request, "eventId": l.event, "eventType": "LOTTERY", "status": "QUEUED", "requestedAt": time.Now().UnixMilli()}
	}
	for name, value := range request {
		l.ownRequest[name] = value
	}
}

// publish publishes the draw: its terms, and fields of the document. Round 1000 of the beacon is in
// an hour.
func (l *lottery) publish(phase string, document object) {
	genesis := time.Now().Add(time.Hour).Unix() - 999*30
	terms, _ := json.Marshal(object{"winners": 20, "round": 1000, "beacon": object{"genesis": genesis, "periodSeconds": 30}})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw = object{"eventId": l.event, "phase": phase, "commitment": string(terms), "commitmentHash": "00"}
	for name, value := range document {
		l.draw[name] = value
	}
}

// testLottery: a visitor applies and gets a receipt, which stays in the browser and can be saved,
// withdraws, applies again, and follows the draw. At each step the page shows the same after a
// reload and on the way back.
func testLottery(t *testing.T) {
	t.Parallel()
	for _, p := range []variant{{phone, "ko"}, {desktop, "en"}} {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)
			base, l := openLottery(t)
			b := openTab(t, base, p.device, p.lang)
			b.startSession(uniqueID("hopeful"))
			b.visit("/promo/" + l.event)
			b.waitForText(says["promo"]["howLottery"])
			b.checkPage("collecting")
			b.click(".enter button")
			b.waitForText(says["request"]["COLLECTING"])
			b.checkPage("applied")
			b.reload()
			b.waitForText(says["promo"]["receiptSaved"])
			file := eval[string](b, "document.querySelector('a[download]').href")
			_, text, _ := strings.Cut(file, ",")
			text, err := url.PathUnescape(text)
			require.NoError(t, err)
			require.Equal(t, "c2lnbmVk\n", text, "the receipt to save")
			require.Contains(t, eval[string](b, fmt.Sprintf("localStorage.getItem(%q)", "urr-receipts-"+l.event)), "c2lnbmVk")

			b.click(".enter button.quiet")
			b.waitForDialog(says["promo"]["withdrawSure"])
			b.waitForText(says["request"]["REJECTED_WITHDRAWN"])
			b.until("the focus near the button, which is gone", "document.activeElement.id === 'main'")
			b.checkPage("withdrawn")
			b.click(".enter button.wide")
			b.waitForText(says["request"]["COLLECTING"])

			l.set("Closed", object{"uiPhase": "DRAWING"})
			l.publish("CLOSED", nil)
			b.reload()
			b.waitForText(says["promo"]["counting"])
			b.waitForText(says["request"]["DRAWING"])
			require.True(t, eval[bool](b, "document.querySelector('.enter button') === null"), "nothing to withdraw after the cutoff")
			l.publish("ROOT", object{"statement": object{"statement": `{"count":4321,"round":1000}`, "signature": "00"}})
			b.reload()
			b.waitForText("4,321")
			before, _, _ := strings.Cut(strings.ReplaceAll(says["promo"]["roundAt"], "{round}", "1000"), "{time}")
			b.waitForText(strings.TrimSpace(before))
			b.checkPage("drawing")
			b.click(`main a[href="/draws/` + l.event + `"]`)
			b.waitForPath("/draws/" + l.event)
			b.waitForText(says["draw"]["limits"])
			b.back()
			b.waitForPath("/promo/" + l.event)
			b.waitForText(says["request"]["DRAWING"])
		})
	}
}

// testLotteryResults: the page distinguishes requests that win, lose, or do not take part.
func testLotteryResults(t *testing.T) {
	parallelTab(t)
	says := words(t, "en")
	base, l := openLottery(t)
	b := openTab(t, base, phone, "en")
	b.startSession(uniqueID("hopeful"))
	b.visit("/promo/" + l.event)
	show := func(name, sentence, status string, request object) {
		l.set(status, request)
		b.reload()
		b.waitForText(sentence)
		b.checkPage(name)
	}
	l.publish("SETTLED", nil)
	show("scheduled", says["promo"]["Scheduled"], "Scheduled", nil)
	show("nothing", says["promo"]["noneAnyMore"], "Announced", nil)
	show("soon", says["request"]["ANNOUNCED"], "Announced", object{"uiResult": "PENDING", "uiPhase": "ANNOUNCED"})
	show("won", says["request"]["won"], "Announced", object{"uiResult": "SUCCESS", "status": "SUCCEEDED", "resultCode": "SUCCESS"})
	rejected := func(code string) object {
		return object{"uiResult": "REJECTED", "status": "REJECTED", "resultCode": code}
	}
	show("lost", says["request"]["REJECTED_LOTTERY_LOSE"], "Announced", rejected("REJECTED_LOTTERY_LOSE"))
	show("late", says["request"]["REJECTED_LATE"], "Announced", rejected("REJECTED_LATE"))
	show("failed", "FAILED_WORKER", "Announced", object{"uiResult": "FAILED", "status": "FAILED_FINAL", "resultCode": "FAILED_WORKER"})
	show("void", says["promo"]["Void"], "Void", rejected("REJECTED_VOID"))
	require.True(t, eval[bool](b, "document.querySelector('#outcome') === null"), "a cancelled lottery has no result")
}
