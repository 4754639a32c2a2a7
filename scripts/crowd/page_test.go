package crowd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// pageShop is a shop whose payment provider has a page. It has one payment at a time.
type pageShop struct {
	choices map[string]int // how often each choice was made
	opened  int
	status  string // of the current payment
	next    string // its status after the buyer's return or the webhook
}

func (s *pageShop) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	switch path := r.URL.Path; {
	case r.URL.Host == "provider.test" && r.Method == http.MethodPost:
		choice := r.FormValue("choice")
		s.choices[choice]++
		if s.next = "CONFIRMED"; choice == "decline" {
			s.next = "DECLINED"
		}
		if choice == "stay" {
			s.status = s.next
			break
		}
		rec.Header().Set("Location", "http://shop.test/api/v1/payments/return/sandbox?orderId=o&token=t&paymentKey=k")
		rec.WriteHeader(http.StatusSeeOther)
	case path == "/api/v1/payments/prepare":
		s.opened++
		s.status = "OPEN"
		_, _ = fmt.Fprintf(rec, `{"paymentId":"p%d","orderId":"o","amount":1,"status":"OPEN","page":{"url":"http://provider.test/pay/x"}}`, s.opened)
	case path == "/api/v1/payments/return/sandbox":
		s.status = s.next
		rec.Header().Set("Location", "/checkout/r")
		rec.WriteHeader(http.StatusSeeOther)
	case strings.HasSuffix(path, "/cancel"):
		s.choices["cancel"]++
		_, _ = rec.WriteString(`{"status":"EXPIRED"}`)
	case path == "/api/v1/payments/confirm":
		s.choices["key"]++
		_, _ = rec.WriteString(`{"status":"CONFIRMED"}`)
	case strings.HasPrefix(path, "/api/v1/payments/"):
		_, _ = fmt.Fprintf(rec, `{"status":%q}`, s.status)
	case path == "/api/v1/my/tickets":
		_, _ = rec.WriteString(`{"items":[{"ticketId":"t","code":"c","eventId":"e"}]}`)
	default:
		_, _ = rec.WriteString(`{"status":"CONFIRMED"}`)
	}
	return rec.Result(), nil
}

// Over many visits, buyers make every choice that the page offers, and all get their tickets.
func TestBuyersPayOnThePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := &pageShop{choices: map[string]int{}}
		api := crowd.NewAPIOver(shop, crowd.NewRecorder())
		for seed := range uint64(500) {
			require.NoError(t, api.PayOnPage(t.Context(), seed, crowd.Buys), seed)
		}
		for _, choice := range []string{"approve", "stay", "slow", "cancel", "key"} {
			require.Positive(t, shop.choices[choice], choice)
		}
		require.Greater(t, shop.choices["approve"], 200, "most simply pay")
		require.Zero(t, shop.choices["decline"])
	})
}
