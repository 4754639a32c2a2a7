package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"
)

// soon is long enough for a page to be opened before a sale begins; what takes longer is looked at before another sale.
const soon = 20 * time.Second

// testSaleOpensByItself: before the sale the page counts down and offers no line; at its opening the way in appears.
func testSaleOpensByItself(t *testing.T) {
	t.Parallel()
	for _, p := range everywhere {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			b := open(t, platformURL, p.device, p.lang)
			b.visit("/events/" + sale{opens: time.Hour}.open(t))
			b.say(words(t, p.lang)["common"]["sale_SCHEDULED"])
			b.see(".countdown")
			b.inspect("before")
			require.False(t, eval[bool](b, `document.querySelector('main a[href^="/queue/"]') !== null`), "nothing to stand in line for yet")
			event := sale{opens: soon}.open(t)
			b.visit("/events/" + event)
			b.see(".countdown")
			b.see(`main a[href="/queue/` + event + `"]`)
			b.inspect("open")
		})
	}
}

// testLineOpensWithTheSale: who waits on the line's page before the sale joins when it opens, not with a turn that is
// spent before there is anything to buy.
func testLineOpensWithTheSale(t *testing.T) {
	t.Parallel()
	b := open(t, platformURL, phone, "ko")
	far := sale{opens: time.Hour}.open(t)
	b.visit("/queue/" + far)
	b.logIn(unused("early"))
	b.arrive("/queue/" + far)
	b.say(words(t, "ko")["common"]["sale_SCHEDULED"])
	b.inspect("before")
	event := sale{opens: soon}.open(t)
	b.visit("/queue/" + event)
	b.say(words(t, "ko")["common"]["sale_SCHEDULED"])
	b.arrive("/events/" + event + "/seats")
}

// testNoLineAfterTheSale: nobody is left waiting for what will never come.
func testNoLineAfterTheSale(t *testing.T) {
	t.Parallel()
	closed := sale{opens: -2 * time.Hour, closes: -time.Hour}.open(t)
	b := open(t, platformURL, phone, "en")
	b.visit("/events/" + closed)
	b.say(words(t, "en")["common"]["sale_CLOSED"])
	b.inspect("closed")
	b.visit("/queue/" + closed)
	b.say(words(t, "en")["common"]["sale_CLOSED"])
	b.inspect("closed line")
	require.False(t, eval[bool](b, "document.querySelector('#position') !== null"))
	b.visit("/queue/" + unused("nowhere"))
	b.say("This event does not exist.")
	b.inspect("unknown line")
}

// testSoldOut: the pages say so, and sell what comes back.
func testSoldOut(t *testing.T) {
	t.Parallel()
	event := sale{seating: "GENERAL", sections: []object{{"section": "FLOOR", "price": 1000, "capacity": 1}}}.open(t)
	other := signIn(t)
	other.enter(event)
	id, _ := other.call(http.MethodPost, "/api/v1/reservations", object{"eventId": event, "section": "FLOOR", "quantity": 1})["reservationId"].(string)
	b := open(t, platformURL, phone, "ko")
	b.visit("/queue/" + event)
	b.logIn(unused("hopeful"))
	b.arrive("/events/" + event + "/book")
	b.say(words(t, "ko")["common"]["sale_SOLD_OUT"])
	b.inspect("sold out")
	require.True(t, eval[bool](b, "document.querySelector('main button[type=submit]').disabled"))
	other.call(http.MethodDelete, "/api/v1/my/reservations/"+id, nil)
	b.until("the ticket that came back", "!document.querySelector('main button[type=submit]').disabled")
}

// testTimesNameTheirZone: times are the visitor's, and say so.
func testTimesNameTheirZone(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	for zone, name := range map[string]string{"Asia/Seoul": "GMT+9", "Asia/Kolkata": "GMT+5:30"} {
		b := open(t, platformURL, desktop, "ko")
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		b.visit("/events/" + event)
		b.see(".facts")
		require.Contains(t, b.text(".facts time"), name)
		require.Equal(t, 3, strings.Count(b.text(".facts"), name), "the event, the sale's opening and its end")
	}
}
