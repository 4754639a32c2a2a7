package crowd

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// passOnEvery and declineEvery mean "one in n": of the orders that keep both tickets, how many pass
// the first one on; of the offers for money, how many are not paid because the card is declined.
const (
	passOnEvery  = 8
	declineEvery = 5
)

// Statuses of an offer: the ticket is passed on, or the buyer has to pay.
const (
	passedOn        = "COMPLETED"
	awaitingPayment = "AWAITING_PAYMENT"
)

// chains returns the possible sequences of offers by which a ticket is passed on, as prices; 0 is a
// gift. Nobody may ask for more than they have paid.
func chains() [][]int64 { return [][]int64{{0}, {30000}, {30000, 20000, 0}} }

// transferTally counts how offers of tickets end.
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

// passOn passes the first ticket of some orders along a chain of users. It returns the last holder
// of the ticket, and the ticket as that user sees it.
func (v *visitor) passOn(ctx context.Context, t ticket) (*visitor, ticket, error) {
	n := v.crowd.after.keptOrders.Add(1)
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

// handOver offers a ticket by link to another user, who accepts and pays. passed is false if that
// user's payment was declined: the offer is then ended.
func (v *visitor) handOver(ctx context.Context, t ticket, price int64, buyer *visitor) (got ticket, passed bool, err error) {
	offer, accepted, err := v.offer(ctx, t, price, buyer)
	if err != nil {
		return got, false, err
	}
	tally := &v.crowd.tally
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

// offer offers a ticket by link to another user, who signs in and accepts.
func (v *visitor) offer(ctx context.Context, t ticket, price int64, buyer *visitor) (offer, accepted transfer, err error) {
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	// Not sent twice: the second request would make a new link, and this one would be invalid.
	if err := v.postOnce(ctx, StepOffer, "/api/v1/my/tickets/"+t.TicketID+"/transfers", map[string]any{"price": price}, header, &offer); err != nil {
		return offer, accepted, err
	}
	if err := buyer.login(ctx); err != nil {
		return offer, accepted, err
	}
	v.crowd.tally.dropTicket(t.Seat.SeatID, v.userID)
	accepted, err = buyer.accept(ctx, offer.Claim)
	return offer, accepted, err
}

// accept accepts an offer. A user without an entitlement waits until the presale is over.
func (v *visitor) accept(ctx context.Context, claim string) (accepted transfer, err error) {
	for {
		ans, err := v.callWithRetries(ctx, StepAccept, http.MethodPost, "/api/v1/transfers/accept", map[string]any{"claim": claim}, nil)
		switch {
		case err != nil:
			return accepted, err
		case ans.OK():
			return accepted, decode(StepAccept, ans, &accepted)
		case ans.Problem().Code != "NOT_ENTITLED":
			return accepted, newRefusalError(StepAccept, ans)
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return accepted, ctx.Err()
		}
	}
}

// payTransfer pays for an accepted offer, and returns the offer's new state. If the payment fails,
// the status is still awaitingPayment.
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

// findTransfer looks for a transfer in the list of the visitor's transfers.
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

// endOffer ends an offer that was not paid. The seller tries again while the buyer's payment may
// still be charged, since the offer cannot be ended then.
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
