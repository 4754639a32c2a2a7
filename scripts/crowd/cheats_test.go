package crowd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// cheatedShop is a gateway with a provider's page. It refuses all cheats but one.
type cheatedShop struct {
	mu sync.Mutex
	// weak is the way to cheat that succeeds or, if wrongCode is not empty, is refused with it.
	weak, wrongCode string
	orders          []*cheatedOrder
	offers          map[string]*cheatedOffer // by id
}

type cheatedOrder struct {
	id, user, kind, reference string
	amount, refunded          int64
	seats                     int
	provider, status          string
	paid                      bool
}

type cheatedOffer struct {
	ticket, status string
	price          int64
}

type cheatBody struct {
	UserID, EventID, Code, Claim, PaymentType, ReferenceID, Provider, OrderID, PaymentKey string
	SeatIDs                                                                               []string
	Amount, Price                                                                         int64
}

type shopAnswer map[string]any

// refusal is the answer to a way to cheat, nil if it succeeds.
func (g *cheatedShop) refusal(way string, status int, code string) shopAnswer {
	if g.weak == way && g.wrongCode == "" {
		return nil
	}
	if g.weak == way {
		code = g.wrongCode
	}
	return shopAnswer{"http": status, "code": code}
}

func (g *cheatedShop) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var body cheatBody
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Header.Get("Content-Type") == "application/json" {
			if err := json.Unmarshal(raw, &body); err != nil {
				return nil, err
			}
		} else if form, err := url.ParseQuery(string(raw)); err == nil {
			body.Code = form.Get("choice")
		}
	}
	rec := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "/availability") {
		_, _ = rec.Write([]byte{0xff, 0xff, 0xf0})
		return rec.Result(), nil
	}
	answer := g.answer(r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), body)
	status := http.StatusOK
	if s, ok := answer["http"].(int); ok {
		status = s
	}
	if to, ok := answer["location"].(string); ok {
		rec.Header().Set("Location", to)
	}
	rec.WriteHeader(status)
	err := json.NewEncoder(rec).Encode(answer)
	return rec.Result(), err
}

func (g *cheatedShop) answer(r *http.Request, user string, body cheatBody) shopAnswer {
	id := path.Base(r.URL.Path)
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/dev-login"):
		return shopAnswer{"token": body.UserID}
	case strings.HasPrefix(p, "/vwr-api/vwr/assign/"):
		return shopAnswer{"http": http.StatusNotFound}
	case strings.HasPrefix(p, "/api/v1/seats/"), strings.HasPrefix(p, "/api/v1/queue/"):
		return g.sell(p, user, body)
	case strings.HasPrefix(p, "/pay/"), strings.HasPrefix(p, "/api/v1/payments/"):
		return g.pay(r, id, user, body)
	case strings.Contains(p, "/transfers"):
		return g.transfer(p, body)
	case strings.HasPrefix(p, "/api/v1/my/"):
		return g.own(p, id, user)
	case p == "/api/v1/events/large/codes":
		return g.refusal("a presale code of another event", http.StatusNotFound, "CODE_INVALID")
	case p == "/api/v1/check-in" && body.EventID == "large" && g.weak == "a ticket of another event at the door":
		return g.refusal(g.weak, http.StatusConflict, "")
	case p == "/api/v1/check-in" && body.EventID == "large":
		return shopAnswer{"http": http.StatusConflict, "code": "NOT_VALID", "why": "WRONG_EVENT"}
	}
	return shopAnswer{"planId": "p", "membershipId": "m", "codes": []string{"code"}}
}

func (g *cheatedShop) sell(p, user string, body cheatBody) shopAnswer {
	switch {
	case strings.HasSuffix(p, "/reserve"):
		o := &cheatedOrder{
			id: fmt.Sprint("o", len(g.orders)), user: user, kind: "reservation", provider: "sandbox", status: "PREPARED",
			reference: fmt.Sprint("r", len(g.orders)), seats: len(body.SeatIDs), amount: 55000 * int64(len(body.SeatIDs)),
		}
		g.orders = append(g.orders, o)
		return shopAnswer{"reservationId": o.reference, "status": "HELD", "amount": o.amount, "quantity": o.seats}
	case strings.Contains(p, "/queue/"):
		return shopAnswer{"status": "active"}
	}
	return shopAnswer{"sections": []any{map[string]any{"section": "A", "rows": []any{map[string]any{"row": "1", "seats": 20}}}}}
}

func (g *cheatedShop) find(is func(*cheatedOrder) bool) *cheatedOrder {
	for _, o := range g.orders {
		if is(o) {
			return o
		}
	}
	return nil
}

func (g *cheatedShop) pay(r *http.Request, id, user string, body cheatBody) shopAnswer {
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/prepare"):
		return g.prepare(user, body)
	case strings.HasSuffix(p, "/confirm"):
		return g.confirm(user, body)
	case strings.HasPrefix(p, "/pay/") && r.Method == http.MethodPost:
		back := url.Values{"orderId": {id}, "token": {"token-" + id}, "paymentKey": {"ok-page-" + id}}
		return shopAnswer{"http": http.StatusSeeOther, "location": "http://gateway.test/api/v1/payments/return/sandbox?" + back.Encode()}
	case strings.HasPrefix(p, "/pay/"):
		return shopAnswer{}
	case strings.Contains(p, "/return/"):
		q := r.URL.Query()
		o := g.find(func(o *cheatedOrder) bool { return o.id == q.Get("orderId") })
		way := "the return of another"
		switch {
		case q.Get("token") == "token-"+o.id:
			g.settle(o)
		case !strings.HasPrefix(q.Get("token"), "token-"):
			way = "a made-up return"
			fallthrough
		default:
			if refused := g.refusal(way, http.StatusNotFound, "PAYMENT_NOT_FOUND"); refused != nil {
				return refused
			}
		}
		return shopAnswer{"http": http.StatusSeeOther}
	case strings.HasSuffix(p, "/refund"):
		way := "the refund of a ticket that was given away"
		if strings.Contains(user, "former-30000") {
			way = "the refund of a ticket that was sold to another"
		}
		return g.refusal(way, http.StatusConflict, "NOT_REFUNDABLE")
	}
	o := g.find(func(o *cheatedOrder) bool { return "p-"+o.id == id })
	if o == nil {
		return shopAnswer{} // cancelled
	}
	return shopAnswer{"orderId": o.id, "status": map[bool]string{true: "CONFIRMED", false: "PREPARED"}[o.paid], "amount": o.amount, "refundedAmount": o.refunded}
}

func (g *cheatedShop) settle(o *cheatedOrder) {
	o.paid = true
	if offer := g.offers[o.reference]; offer != nil {
		offer.status = "COMPLETED"
	}
}

func (g *cheatedShop) prepare(user string, body cheatBody) shopAnswer {
	if body.Provider != "" {
		code := map[string]string{"none": "INVALID_REQUEST", "bank": "PROVIDER_UNKNOWN"}[body.Provider]
		if refused := g.refusal("the provider "+body.Provider+" for a "+body.PaymentType, http.StatusBadRequest, code); refused != nil {
			return refused
		}
	}
	o := g.find(func(o *cheatedOrder) bool { return o.reference == body.ReferenceID })
	if o == nil {
		o = &cheatedOrder{id: fmt.Sprint("o", len(g.orders)), user: user, kind: body.PaymentType, provider: "sandbox", reference: body.ReferenceID, amount: 30000}
		g.orders = append(g.orders, o)
	}
	return shopAnswer{
		"paymentId": "p-" + o.id, "orderId": o.id, "provider": o.provider, "amount": o.amount, "status": "PREPARED",
		"page": map[string]any{"url": "http://gateway.test/pay/" + o.id},
	}
}

func (g *cheatedShop) confirm(user string, body cheatBody) shopAnswer {
	o := g.find(func(o *cheatedOrder) bool { return o.id == body.OrderID })
	var refused shopAnswer
	switch foreign := strings.HasPrefix(body.PaymentKey, "ok-page-") && body.PaymentKey != "ok-page-"+o.id; {
	case user != o.user:
		refused = g.refusal("the order of another", http.StatusNotFound, "PAYMENT_NOT_FOUND")
	case body.Amount < 0:
		refused = g.refusal("a negative amount", http.StatusBadRequest, "INVALID_REQUEST")
	case body.Amount == 0 && o.kind == "transfer":
		refused = g.refusal("an amount of zero for a transfer", http.StatusConflict, "AMOUNT_MISMATCH")
	case body.Amount == 0:
		refused = g.refusal("an amount of zero", http.StatusConflict, "AMOUNT_MISMATCH")
	case body.Amount < o.amount:
		refused = g.refusal("a lower amount", http.StatusConflict, "AMOUNT_MISMATCH")
	case foreign && g.weak != "the payment key of another order":
		return shopAnswer{"status": "DECLINED"}
	case foreign:
		refused = g.refusal(g.weak, http.StatusConflict, "")
	default:
		if o.paid && g.weak == "a second confirmation at the same time" {
			o.amount *= 2 // charged again
		}
		g.settle(o)
	}
	if refused != nil {
		return refused
	}
	return shopAnswer{"status": "CONFIRMED"}
}

func (g *cheatedShop) transfer(p string, body cheatBody) shopAnswer {
	id := body.Claim
	switch {
	case strings.HasPrefix(p, "/api/v1/my/tickets/"):
		id = fmt.Sprint("offer", len(g.offers))
		g.offers[id] = &cheatedOffer{ticket: strings.Split(p, "/")[5], price: body.Price, status: "OPEN"}
	case strings.HasSuffix(p, "/accept"):
		g.offers[id].status = "AWAITING_PAYMENT"
		if g.offers[id].price == 0 {
			g.offers[id].status = "COMPLETED"
		}
	case strings.HasSuffix(p, "/cancel"):
		offer := g.offers[strings.Split(p, "/")[5]]
		if offer.status = "CANCELLED"; g.weak == "a transfer to an accomplice" {
			seller := g.find(func(o *cheatedOrder) bool { return strings.HasPrefix(offer.ticket, "t-"+o.id+"-") })
			seller.refunded = offer.price
		}
		return shopAnswer{}
	default:
		var items []any
		for id, o := range g.offers {
			items = append(items, shopAnswer{"transferId": id, "status": o.status, "ticketId": o.ticket + "+", "paymentId": "p"})
		}
		return shopAnswer{"items": items}
	}
	return shopAnswer{"transferId": id, "claim": id, "status": g.offers[id].status, "ticketId": g.offers[id].ticket + "+"}
}

func (g *cheatedShop) own(p, id, user string) shopAnswer {
	if strings.Contains(p, "/reservations/") {
		o := g.find(func(o *cheatedOrder) bool { return o.reference == id })
		return shopAnswer{"reservationId": id, "status": map[bool]string{true: "CONFIRMED", false: "PAYING"}[o.paid]}
	}
	if strings.HasPrefix(p, "/api/v1/my/tickets/") {
		return shopAnswer{"ticketId": id, "seat": map[string]any{"seatId": strings.TrimRight(id, "+")}}
	}
	var items []any
	for _, o := range g.orders {
		for i := range o.seats {
			if id := fmt.Sprint("t-", o.id, "-", i); o.user == user {
				seat := map[string]any{"seatId": id}
				items = append(items, shopAnswer{"ticketId": id, "code": "c", "eventId": "large-cheats", "paymentId": "p-" + o.id, "seat": seat})
			}
		}
	}
	return shopAnswer{"items": items}
}

// ways are all ways to cheat.
func ways() []string {
	out := []string{
		"the order of another", "a lower amount", "an amount of zero", "a negative amount", "a made-up return", "the return of another",
		"the payment key of another order", "a second confirmation at the same time", "a ticket of another event at the door",
		"an amount of zero for a transfer", "a transfer to an accomplice", "the refund of a ticket that was given away",
		"the refund of a ticket that was sold to another", "a presale code of another event",
	}
	for _, what := range []string{"reservation", "transfer", "membership"} {
		out = append(out, "the provider none for a "+what, "the provider bank for a "+what)
	}
	return out
}

// cheat runs the cheats at a shop.
func cheat(t *testing.T, shop http.RoundTripper) *crowd.Cheats {
	t.Helper()
	c := crowd.NewCheats(crowd.Sale{EventID: "large"}, crowd.NewAPIOver(shop, crowd.NewRecorder()), crowd.AfterSale{}, 1)
	require.NoError(t, c.Open(t.Context(), "operator"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of simulated time
	defer cancel()
	c.Run(ctx)
	return c
}

// Every way to cheat is tried once. If all are refused as documented, nothing is wrong.
func TestCheatsAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cheat(t, &cheatedShop{offers: map[string]*cheatedOffer{}})
		require.Empty(t, c.Tally().Violations())
		require.Equal(t, len(ways()), c.Tried())
	})
}

// A way to cheat that succeeds, or is refused for another reason, is reported.
func TestCheatsThatSucceedAreReported(t *testing.T) {
	t.Parallel()
	for _, way := range ways() {
		for _, code := range []string{"", "ANOTHER"} {
			t.Run(way+code, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := cheat(t, &cheatedShop{weak: way, wrongCode: code, offers: map[string]*cheatedOffer{}})
					require.Len(t, c.Tally().WrongAnswers(), 1)
					require.Contains(t, c.Tally().WrongAnswers()[0], "cheating by "+way+" ended with ")
					require.Equal(t, len(ways()), c.Tried())
				})
			})
		}
	}
}

// refusing lets the cheats prepare, and then refuses everything.
type refusing struct{ cheatedShop }

func (g *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/api/v1/events/") || strings.HasPrefix(r.URL.Path, "/api/v1/queue/") || strings.HasSuffix(r.URL.Path, "/prepare") {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	}
	return g.cheatedShop.RoundTrip(r)
}

// Cheats that were not tried are reported.
func TestCheatsMustBeTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cheat(t, &refusing{cheatedShop{offers: map[string]*cheatedOffer{}}})
		require.Contains(t, c.Tally().WrongAnswers(), "3 attempts to cheat were made, not 20")
	})
}
