package crowd

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// Each constant n stands for "one in n": kept orders of which the first ticket is passed on, and
// offers for money of which the payment is declined.
const (
	passOnEvery  = 8
	declineEvery = 5
)

// Statuses of an offer: the ticket is passed on, or the buyer has to pay.
const (
	passedOn        = "COMPLETED"
	awaitingPayment = "AWAITING_PAYMENT"
)

// chains returns the sequences of offers by which a ticket is passed on, as prices; 0 is a gift.
// Nobody may ask for more than what they have paid.
func chains() [][]int64 { return [][]int64{{0}, {30000}, {30000, 20000, 0}} }

// transferTally counts what became of offers of tickets.
type transferTally struct {
	// Gifts and Resold count the tickets that were passed on free and for money, and OffersEnded the
	// offers whose buyer did not pay.
	Gifts, Resold, OffersEnded atomic.Int64
}

// transfer is an offer of a ticket as its seller or buyer sees it.
type transfer struct {
	TransferID string `json:"transferId"`
	Status     string `json:"status"`
	Claim      string `json:"claim"`
	TicketID   string `json:"ticketId"`
	PaymentID  string `json:"paymentId"`
}

// passOn decides whether the first ticket of an order is passed on, and passes it along a chain of
// users. It returns who has the ticket in the end, and the ticket as that user sees it.
func (v *visitor) passOn(ctx context.Context, t ticket) (*visitor, ticket, error) {
	n := v.crowd.after.whole.Add(1)
	if n%passOnEvery != 1 {
		return v, t, nil
	}
	allChains := chains()
	chain, owner := allChains[int(n/passOnEvery)%len(allChains)], v
	for i, price := range chain {
		next := &visitor{crowd: v.crowd, rng: v.rng, userID: fmt.Sprintf("%s-friend-%d", v.userID, i+1), session: v.crowd.api.NewSession()}
		got, passed, err := owner.handOver(ctx, t, price, next)
		if err != nil || !passed {
			return owner, t, err
		}
		if err := owner.showFormer(ctx, t); err != nil {
			return owner, t, err
		}
		owner, t = next, got
	}
	return owner, t, nil
}

// handOver offers a ticket to another user by link, who accepts and pays. passed is false if the
// payment was declined, which ends the offer.
func (v *visitor) handOver(ctx context.Context, t ticket, price int64, buyer *visitor) (got ticket, passed bool, err error) {
	var offer, accepted transfer
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	// A second click would make a new link, and void this one.
	if err := v.postOnce(ctx, StepOffer, "/api/v1/my/tickets/"+t.TicketID+"/transfers", map[string]any{"price": price}, header, &offer); err != nil {
		return got, false, err
	}
	if err := buyer.login(ctx); err != nil {
		return got, false, err
	}
	tally := &v.crowd.tally
	tally.dropTicket(t.Seat.SeatID, v.userID)
	if err := buyer.post(ctx, StepAccept, "/api/v1/transfers/accept", map[string]any{"claim": offer.Claim}, &accepted); err != nil {
		return got, false, err
	}
	if accepted.Status == awaitingPayment {
		if accepted, err = buyer.payTransfer(ctx, offer.TransferID); err != nil {
			return got, false, err
		}
	}
	if accepted.Status == awaitingPayment {
		if accepted, err = v.endOffer(ctx, offer.TransferID); err != nil {
			return got, false, err
		}
	}
	if accepted.Status != passedOn {
		tally.OffersEnded.Add(1)
		tally.addTicket(t.Seat.SeatID, v.userID)
		return got, false, nil
	}
	if err := buyer.get(ctx, StepTicket, "/api/v1/my/tickets/"+accepted.TicketID, &got); err != nil {
		return got, false, err
	}
	tally.addTicket(got.Seat.SeatID, buyer.userID)
	if price > 0 {
		tally.Resold.Add(1)
	} else {
		tally.Gifts.Add(1)
	}
	return got, true, nil
}

// payTransfer pays for an accepted offer, and returns the offer's new state. Its status is
// awaitingPayment if nothing was paid.
func (v *visitor) payTransfer(ctx context.Context, id string) (t transfer, err error) {
	key := paymentKey(v.rng, uuid.NewString())
	if v.crowd.after.offers.Add(1)%declineEvery == 3 {
		key = "decline-" + uuid.NewString()
	}
	status, err := v.charge(ctx, payable{kind: "transfer", id: id}, key)
	if err != nil {
		return t, err
	}
	for {
		if t, err = v.findTransfer(ctx, id); err != nil {
			return t, err
		}
		if t.Status != awaitingPayment || t.PaymentID == "" && status != confirmed {
			return t, nil
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return t, ctx.Err()
		}
	}
}

// findTransfer finds a transfer in the visitor's list, which is short.
func (v *visitor) findTransfer(ctx context.Context, id string) (transfer, error) {
	var list struct {
		Items []transfer `json:"items"`
	}
	if err := v.get(ctx, StepTransfers, "/api/v1/my/transfers", &list); err != nil {
		return transfer{}, err
	}
	for _, t := range list.Items {
		if t.TransferID == id {
			return t, nil
		}
	}
	return transfer{}, fmt.Errorf("transfer %s is not in the own list", id)
}

// endOffer ends an offer that was not paid. While its buyer's payment may still be charged, the
// seller cannot end it and asks again.
func (v *visitor) endOffer(ctx context.Context, id string) (transfer, error) {
	for {
		ans, err := v.callWithRetries(ctx, StepEndOffer, http.MethodPost, "/api/v1/my/transfers/"+id+"/cancel", map[string]any{}, nil)
		switch {
		case err != nil:
			return transfer{}, err
		case ans.OK() || ans.Problem().Code == "TRANSFER_ENDED":
			return v.findTransfer(ctx, id)
		case ans.Problem().Code != "PAYMENT_IN_PROGRESS":
			return transfer{}, newRefusalError(StepEndOffer, ans)
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return transfer{}, ctx.Err()
		}
	}
}

// showFormer tries to get in with a ticket that was passed on, which every door must refuse.
func (v *visitor) showFormer(ctx context.Context, t ticket) error {
	answer, err := v.scan(ctx, t)
	switch {
	case err != nil:
		return err
	case answer.admitted:
		v.crowd.tally.addWrongAnswer("a door let in with ticket %s, which was passed on", t.TicketID)
	default:
		v.crowd.tally.RefusedScans.Add(1)
	}
	return nil
}
