package crowd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/google/uuid"
)

const (
	preparePath = "/api/v1/payments/prepare"
	confirmPath = "/api/v1/payments/confirm"
	// resalePrice is what a ticket is offered for, in KRW.
	resalePrice = 30000

	invalidRequest  = "INVALID_REQUEST"
	paymentNotFound = "PAYMENT_NOT_FOUND"
	amountMismatch  = "AMOUNT_MISMATCH"
)

var errNoTicket = errors.New("paid, and no ticket to cheat with")

func okKey() string { return "ok-" + uuid.NewString() }

// payByNobody prepares payments at providers that take no money. If one is prepared all the same, it
// is confirmed too, so that the books show what was got by it.
func (c *Cheats) payByNobody(ctx context.Context, v *visitor, what payable) error {
	for provider, right := range map[string]string{"none": invalidRequest, "bank": "PROVIDER_UNKNOWN"} {
		body := map[string]any{"paymentType": what.kind, "referenceId": what.id, "provider": provider}
		ans, err := c.attempt(ctx, v, "the provider "+provider+" for a "+what.kind, http.MethodPost, preparePath, body, right)
		if err != nil {
			return err
		}
		var p preparedPayment
		if ans.OK() && decode(StepCheat, ans, &p) == nil {
			if _, err := v.sendKey(ctx, p, okKey(), p.Amount); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendKey confirms a payment, and returns the code of the refusal or the final status.
func (v *visitor) sendKey(ctx context.Context, p preparedPayment, key string, amount int64) (outcome string, err error) {
	body := map[string]any{"orderId": p.OrderID, "paymentKey": key, "amount": amount}
	ans, err := v.callWithRetries(ctx, StepCheat, http.MethodPost, confirmPath, body, map[string]string{"Idempotency-Key": uuid.NewString()})
	if err != nil {
		return "", err
	}
	if outcome = outcomeOf(ans); outcome == "PENDING" {
		return v.awaitPayment(ctx, p.PaymentID)
	}
	return outcome, nil
}

// confirm tries to pay with a key and an amount.
func (c *Cheats) confirm(ctx context.Context, v *visitor, way string, p preparedPayment, key string, amount int64, right string) error {
	outcome, err := v.sendKey(ctx, p, key, amount)
	if err == nil {
		c.record(way, outcome, right)
	}
	return err
}

// comeBack tries to come back from the provider's page with parameters that do not prove the order.
func (c *Cheats) comeBack(ctx context.Context, v *visitor, way, path string, params url.Values) error {
	_, err := c.attempt(ctx, v, way, http.MethodGet, path+"?"+params.Encode(), nil, paymentNotFound)
	return err
}

// payWrongly tries to pay for seats by nobody, less than their price, and by a stranger.
func (c *Cheats) payWrongly(ctx context.Context) error {
	v, held, err := c.hold(ctx, "buyer")
	if err != nil {
		return err
	}
	if err := c.payByNobody(ctx, v, held.payable()); err != nil {
		return err
	}
	p, err := v.prepare(ctx, held.payable())
	if err != nil {
		return err
	}
	stranger, err := c.signIn(ctx, "stranger")
	if err != nil {
		return err
	}
	returned := url.Values{"orderId": {p.OrderID}, "token": {uuid.NewString()}, "paymentKey": {okKey()}}
	return errors.Join(
		c.confirm(ctx, stranger, "the order of another", p, okKey(), p.Amount, paymentNotFound),
		c.confirm(ctx, v, "a lower amount", p, okKey(), p.Amount-1, amountMismatch),
		c.confirm(ctx, v, "an amount of zero", p, okKey(), 0, amountMismatch),
		c.confirm(ctx, v, "a negative amount", p, okKey(), -p.Amount, invalidRequest),
		c.comeBack(ctx, stranger, "a made-up return", "/api/v1/payments/return/"+p.Provider, returned),
		v.pay(ctx, held),
	)
}

// payWithForeignKey tries to pay the order of a friend with what the provider's page gave to a
// buyer: by the buyer's return, and by the payment key.
func (c *Cheats) payWithForeignKey(ctx context.Context) error {
	buyer, held, paid, err := c.prepare(ctx, "payer")
	if err != nil {
		return err
	}
	friend, wanted, unpaid, err := c.prepare(ctx, "friend")
	if err != nil {
		return err
	}
	if paid.Page == nil || paid.Page.URL == "" {
		c.noPage.Store(true)
		return errors.Join(buyer.pay(ctx, held), friend.pay(ctx, wanted))
	}
	ans, err := buyer.atPage(ctx, http.MethodPost, paid.Page.URL, "approve")
	if err != nil {
		return err
	}
	back, err := url.Parse(ans.Header.Get("Location"))
	if err != nil {
		return fmt.Errorf("the provider's redirect: %w", err)
	}
	params := back.Query()
	params.Set("orderId", unpaid.OrderID)
	err = errors.Join(
		c.comeBack(ctx, buyer, "the return of another", back.Path, params),
		c.confirm(ctx, friend, "the payment key of another order", unpaid, params.Get("paymentKey"), unpaid.Amount, declined),
		buyer.comeBack(ctx, back.String()),
		friend.pay(ctx, wanted),
	)
	_, noTicket := buyer.awaitTicket(ctx, held)
	return errors.Join(err, noTicket)
}

// payTwice confirms a payment in two tabs at the same time, which must be charged once. It then
// shows a ticket at the door of another event.
func (c *Cheats) payTwice(ctx context.Context) error {
	v, held, p, err := c.prepare(ctx, "twice")
	if err != nil {
		return err
	}
	tab := *v
	tab.session = v.session.Fork()
	var second error
	var wg sync.WaitGroup
	wg.Go(func() { _, second = tab.sendKey(ctx, p, okKey(), p.Amount) })
	_, first := v.sendKey(ctx, p, okKey(), p.Amount)
	wg.Wait()
	if err := errors.Join(first, second); err != nil {
		return err
	}
	if paid, err := v.awaitTicket(ctx, held); err != nil || !paid || len(v.tickets) == 0 {
		return cmp.Or(err, errNoTicket)
	}
	kept, err := v.kept(ctx, p.PaymentID)
	if err != nil {
		return err
	}
	const outcome = "%d tickets for %d"
	c.record("a second confirmation at the same time", fmt.Sprintf(outcome, len(v.tickets), kept), fmt.Sprintf(outcome, held.Quantity, held.Amount))
	elsewhere := v.tickets[0]
	elsewhere.EventID = c.other
	answer, err := v.scan(ctx, elsewhere)
	if err == nil {
		c.record("a ticket of another event at the door", cmp.Or(answer.why, answer.code, "success"), "WRONG_EVENT")
	}
	return err
}

// kept returns the amount of a payment that was not given back. The audit of the stores compares it
// with the provider's ledger.
func (v *visitor) kept(ctx context.Context, paymentID string) (int64, error) {
	var p struct{ Amount, RefundedAmount int64 }
	err := v.get(ctx, StepPayment, "/api/v1/payments/"+paymentID, &p)
	return p.Amount - p.RefundedAmount, err
}

// payNothingForTransfer offers a ticket for money to an accomplice, who tries not to pay. When the
// offer has ended, the seller must not have got any money.
func (c *Cheats) payNothingForTransfer(ctx context.Context) error {
	seller, held, err := c.buy(ctx, "seller")
	if err != nil {
		return err
	}
	buyer, sold := c.user("accomplice"), seller.tickets[0]
	offer, _, err := seller.offer(ctx, sold, resalePrice, buyer)
	if err != nil {
		return err
	}
	what := payable{kind: "transfer", id: offer.TransferID}
	if err := c.payByNobody(ctx, buyer, what); err != nil {
		return err
	}
	p, err := buyer.prepare(ctx, what)
	if err != nil {
		return err
	}
	if err := c.confirm(ctx, buyer, "an amount of zero for a transfer", p, okKey(), 0, amountMismatch); err != nil {
		return err
	}
	if _, err := buyer.callWithRetries(ctx, StepCancel, http.MethodPost, "/api/v1/payments/"+p.PaymentID+"/cancel", map[string]any{}, nil); err != nil {
		return err
	}
	ended, err := seller.endOffer(ctx, offer.TransferID)
	if err != nil {
		return err
	}
	kept, err := seller.kept(ctx, sold.PaymentID)
	if err == nil {
		const outcome = "%s, %d kept of the seller's payment"
		c.record("a transfer to an accomplice", fmt.Sprintf(outcome, ended.Status, kept), fmt.Sprintf(outcome, "CANCELLED", held.Amount))
	}
	return err
}

// refundPassedOn asks for the refund of a ticket that was passed on.
func (c *Cheats) refundPassedOn(ctx context.Context, how string, price int64) error {
	former, _, err := c.buy(ctx, fmt.Sprintf("former-%d", price))
	if err != nil {
		return err
	}
	t := former.tickets[0]
	_, passed, err := former.handOver(ctx, t, price, c.user(fmt.Sprintf("holder-%d", price)))
	if err != nil || !passed {
		return cmp.Or(err, errors.New("the ticket was not passed on"))
	}
	body := map[string]any{"ticketIds": []string{t.TicketID}, "reason": "cannot come"}
	_, err = c.attempt(ctx, former, "the refund of a ticket that was "+how, http.MethodPost, "/api/v1/payments/"+t.PaymentID+"/refund", body, "NOT_REFUNDABLE")
	return err
}

// useForeignCode uses a presale code at the other event, whose list of codes has the same name. The
// code's own event must accept it.
func (c *Cheats) useForeignCode(ctx context.Context) error {
	v, err := c.signIn(ctx, "code")
	if err != nil {
		return err
	}
	code := map[string]any{"code": c.code}
	if _, err := c.attempt(ctx, v, "a presale code of another event", http.MethodPost, "/api/v1/events/"+c.other+"/codes", code, "CODE_INVALID"); err != nil {
		return err
	}
	var accepted struct{}
	return v.post(ctx, StepCheat, "/api/v1/events/"+c.sale.EventID+"/codes", code, &accepted)
}
