package crowd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// passing simulates the gateway's API for passing tickets on, for one buyer at a time.
type passing struct {
	passed map[string]bool // the tickets that were passed on
	offers []offer
	asked  int // how often a seller tried to end an offer; the first attempt is refused
}

type offer struct {
	ticket, status, payment string
	price                   int
}

type passingBody struct {
	Price      int
	PaymentKey string
}

func (*passing) knows(path string) bool {
	return strings.Contains(path, "/transfers") || path == "/api/v1/payments/prepare" || path == "/api/v1/payments/confirm"
}

func (p *passing) last() *offer { return &p.offers[len(p.offers)-1] }

func (p *passing) complete() {
	o := p.last()
	o.status = "COMPLETED"
	p.passed[o.ticket] = true
}

// pass answers a call by a seller or a buyer.
func (p *passing) pass(r *http.Request, body passingBody) (status int, answer map[string]any) {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/api/v1/my/tickets/"):
		p.offers = append(p.offers, offer{ticket: strings.Split(path, "/")[5], status: "OPEN", price: body.Price})
		return http.StatusCreated, map[string]any{"transferId": "t", "status": "OPEN", "claim": "c"}
	case path == "/api/v1/transfers/accept":
		if p.last().status = "AWAITING_PAYMENT"; p.last().price == 0 {
			p.complete()
		}
	case path == "/api/v1/payments/prepare":
		p.last().payment = "p"
		return http.StatusOK, map[string]any{"paymentId": "p", "orderId": "o", "amount": p.last().price, "status": "PREPARED", "page": map[string]any{}}
	case path == "/api/v1/payments/confirm":
		if strings.HasPrefix(body.PaymentKey, "decline-") {
			p.last().payment = ""
			return http.StatusOK, map[string]any{"status": "DECLINED"}
		}
		p.complete()
		return http.StatusOK, map[string]any{"status": "CONFIRMED"}
	case strings.HasSuffix(path, "/cancel"):
		if p.asked++; p.asked == 1 {
			return http.StatusConflict, map[string]any{"code": "PAYMENT_IN_PROGRESS"}
		}
		p.last().status = "CANCELLED"
	}
	shown := map[string]any{"transferId": "t", "status": p.last().status, "paymentId": p.last().payment}
	if p.last().status == "COMPLETED" {
		shown["ticketId"] = p.last().ticket + "+"
	}
	if strings.HasPrefix(r.URL.Path, "/api/v1/my/transfers") {
		return http.StatusOK, map[string]any{"items": []any{shown}}
	}
	return http.StatusOK, shown
}

// Of eight orders that keep both tickets, one passes a ticket on: as a gift, for money, or along a
// chain. If the payment is declined, the offer ends and the seller keeps the ticket.
func TestTicketsArePassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{}
		tally := sellTo(t, g, 56)
		require.Empty(t, tally.Violations())
		var transfers []string
		for _, o := range g.offers {
			transfers = append(transfers, fmt.Sprintf("%s %d %s", o.ticket, o.price, o.status))
		}
		require.Equal(t, []string{
			"o1-1 0 COMPLETED", "o11-1 30000 COMPLETED", "o20-1 30000 COMPLETED", "o20-1+ 20000 CANCELLED", "o29-1 0 COMPLETED",
			"o38-1 30000 COMPLETED", "o49-1 30000 COMPLETED", "o49-1+ 20000 COMPLETED", "o49-1++ 0 COMPLETED",
		}, transfers)
		require.Equal(t, 2, g.asked)
		require.Equal(t, []int64{3, 5, 1}, []int64{tally.Gifts.Load(), tally.Resold.Load(), tally.OffersEnded.Load()})
	})
}
