package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// moneyActor does random acts of buyers, doors, operators and the provider; the seed decides which.
type moneyActor struct {
	*money

	rng  *rand.Rand
	name string
	keys int
}

// moneyActs are the acts of people, with their weights.
var moneyActs = []struct {
	weight int
	name   string
	act    func(a *moneyActor, ctx context.Context)
}{
	{32, "buy", (*moneyActor).buy},
	{4, "hold", func(a *moneyActor, ctx context.Context) { a.hold(ctx, a.user()) }},
	{24, "refund", (*moneyActor).refund},
	{30, "pass on", (*moneyActor).passOn},
	{8, "join", (*moneyActor).join},
	{4, "end a membership", (*moneyActor).endMembership},
	{4, "check in", (*moneyActor).checkIn},
	{4, "refund by hand", func(a *moneyActor, _ context.Context) { a.provider.refundByHand(a.rng.IntN(2) == 0) }},
	{4, "assign by hand", (*moneyActor).assignByHand},
	{5, "settle a refund", func(a *moneyActor, _ context.Context) { a.provider.settleRefund(a.rng.IntN(2) == 0) }},
	{6, "settle a charge", func(a *moneyActor, _ context.Context) { a.provider.settleCharge() }},
	{4, "person", (*moneyActor).decideHeld},
	{3, "hold a refund", (*moneyActor).holdRefund},
	{4, "house", (*moneyActor).keepPlaces},
	{3, "void", (*moneyActor).void},
	{1, "cancel or undo", (*moneyActor).cancel},
	{2, "forget", (*moneyActor).forget},
	{3, "change the provider", func(a *moneyActor, _ context.Context) { a.provider.setFaults(a.rng.IntN(4) == 0) }},
	{6, "late calls", func(a *moneyActor, _ context.Context) { a.arriveLate() }},
	{3, "hours pass", func(a *moneyActor, _ context.Context) { a.advance(time.Duration(5+a.rng.IntN(15)) * time.Minute) }},
}

// act lets a little time pass and does one random act.
func (a *moneyActor) act(ctx context.Context) {
	a.advance(time.Duration(a.rng.IntN(9)) * time.Second)
	pause(ctx, time.Duration(a.rng.IntN(4000))*time.Microsecond)
	sum := 0
	for _, x := range moneyActs {
		sum += x.weight
	}
	n := a.rng.IntN(sum)
	for _, x := range moneyActs {
		if n -= x.weight; n < 0 {
			x.act(a, ctx)
			a.count(x.name)
			return
		}
	}
}

func (a *moneyActor) user() string  { return fmt.Sprint("u", a.rng.IntN(7)) }
func (a *moneyActor) replica() int  { return a.rng.IntN(moneyReplicas) }
func (a *moneyActor) key() string   { a.keys++; return fmt.Sprint(a.name, "-", a.keys) }
func (a *moneyActor) event() string { return []string{"seats", "floor"}[a.rng.IntN(2)] }

// hold holds places, and cancels a tenth of these holds. Without a hold it returns "".
func (a *moneyActor) hold(ctx context.Context, user string) (id string) {
	event, n := a.event(), int32(1+a.rng.IntN(3)) //nolint:gosec // a small number
	caller := &commonv1.Caller{UserId: user, EventId: event, SlotId: "slot-" + user, IdempotencyKey: a.key()}
	client := ticketv1.NewHoldServiceClient(a.ticket(a.replica()).server)
	var res *ticketv1.HoldResponse
	var err error
	if event == "seats" && a.rng.IntN(2) == 0 {
		first := 1 + a.rng.IntN(7-int(n))
		item := &ticketv1.HoldSeatsItem{Caller: caller, EventId: event}
		for i := range int(n) {
			item.SeatIds = append(item.SeatIds, fmt.Sprintf("A-%d-%d", 1+a.rng.IntN(2), first+i))
		}
		res, err = client.HoldSeats(ctx, &ticketv1.HoldSeatsRequest{Items: []*ticketv1.HoldSeatsItem{item}})
	} else {
		res, err = client.HoldBest(ctx, &ticketv1.HoldBestRequest{Items: []*ticketv1.HoldBestItem{{
			Caller: caller, EventId: event, Section: "A", Quantity: n,
		}}})
	}
	if err != nil || res.GetResults()[0].GetReservation() == nil {
		return ""
	}
	id = res.GetResults()[0].GetReservation().GetReservationId()
	if a.rng.IntN(10) == 0 {
		_, _ = ticketv1.NewReservationServiceClient(a.ticket(a.replica()).server).CancelMyReservation(ctx,
			&ticketv1.CancelReservationRequest{Caller: &commonv1.Caller{UserId: user}, ReservationId: id})
	}
	return id
}

// keepPlaces keeps some places of an event for its organiser, or releases them. From an hour before
// closesAt it does nothing, since doors may have refunded tickets on their lists.
func (a *moneyActor) keepPlaces(ctx context.Context) {
	event, caller := a.event(), &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
	admin := ticketv1.NewEventAdminServiceClient(a.ticket(a.replica()).server)
	var closes time.Time
	house, err := admin.GetHouse(ctx, &ticketv1.GetHouseRequest{Caller: caller, EventId: event})
	if err == nil {
		err = a.ticketDB.QueryRow(ctx, `SELECT closes_at FROM events WHERE event_id = $1`, event).Scan(&closes)
	}
	if err != nil || a.clock.Now().Add(time.Hour).After(closes) {
		return
	}
	change := &ticketv1.PutHouseRequest{Caller: caller, EventId: event, Release: house.GetSeatIds()}
	if event == "floor" {
		change.Standing = map[string]int64{"A": a.rng.Int64N(3)}
	} else if a.rng.IntN(2) == 0 {
		change.Take, change.Release = []string{fmt.Sprintf("A-1-%d", 1+a.rng.IntN(7))}, nil
	}
	_, _ = admin.PutHouse(ctx, change)
}

// buy holds places and pays for them, sometimes twice.
func (a *moneyActor) buy(ctx context.Context) {
	user := a.user()
	id := a.hold(ctx, user)
	if id == "" {
		return
	}
	for range 1 + a.rng.IntN(5)/4 {
		a.pay(ctx, "reservation", id, user)
	}
}

// moneyKeys are the prefixes of payment keys, which select what the provider does.
var moneyKeys = []string{
	"ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "ok-", "decline-", "timeout-", "lost-", "late-", "late-decline-",
}

// join buys a membership. Sometimes it pays twice, or too late.
func (a *moneyActor) join(ctx context.Context) {
	user := a.user()
	m, err := ticketv1.NewMembershipServiceClient(a.ticket(a.replica()).server).BuyMembership(ctx, &ticketv1.BuyMembershipRequest{
		Caller: &commonv1.Caller{UserId: user}, PlanId: a.plan,
	})
	if err != nil {
		return
	}
	if a.rng.IntN(8) == 0 {
		a.advance(time.Duration(a.rng.IntN(40)) * time.Minute)
	}
	for range 1 + a.rng.IntN(5)/4 {
		a.pay(ctx, "membership", m.GetMembershipId(), user)
	}
}

// endMembership requests the refund of a membership, as an operator.
func (a *moneyActor) endMembership(ctx context.Context) {
	paid := texts(ctx, a.ticketDB, `SELECT payment_id::text FROM memberships WHERE status IN ('ACTIVE', 'REFUNDING') ORDER BY membership_id`)
	if len(paid) == 0 {
		return
	}
	id, err := uuid.Parse(paid[a.rng.IntN(len(paid))])
	if err != nil {
		return
	}
	p := a.payment(a.replica())
	if err := p.code.RequestRefund(ctx, id, "OPERATOR", "op", a.key(), nil); err != nil {
		a.expectAnswer(p.moneyProcess, "RequestRefund", err)
	}
}

// pay pays for a reservation, a transfer or a membership.
func (a *moneyActor) pay(ctx context.Context, kind, id, user string) {
	p, err := paymentv1.NewPaymentServiceClient(a.payment(a.replica()).server).Prepare(ctx, &paymentv1.PrepareRequest{
		Caller: &commonv1.Caller{UserId: user, IdempotencyKey: a.key()}, PaymentType: kind, ReferenceId: id,
	})
	if err != nil {
		return
	}
	if a.rng.IntN(20) == 0 {
		a.advance(time.Duration(a.rng.IntN(400)) * time.Second) // the hold may expire
	}
	_, _ = paymentv1.NewPaymentServiceClient(a.payment(a.replica()).server).Confirm(ctx, &paymentv1.ConfirmRequest{
		Caller:  &commonv1.Caller{UserId: user, IdempotencyKey: a.key()},
		OrderId: p.GetOrderId(), PaymentKey: moneyKeys[a.rng.IntN(len(moneyKeys))] + id, Amount: proto.Int64(p.GetAmount()),
	})
}

// ticketRow is a row of the tickets table.
type ticketRow struct {
	id, payment, order uuid.UUID
	user               string
}

// someTicket returns a random ticket with a status; empty: any status.
func (a *moneyActor) someTicket(ctx context.Context, status string) (t ticketRow, ok bool) {
	var all []ticketRow
	rows, err := a.ticketDB.Query(ctx, `
		SELECT ticket_id, payment_id, reservation_id, user_id FROM tickets WHERE $1 IN ('', status) ORDER BY ticket_id`, status)
	if err != nil {
		return t, false
	}
	defer rows.Close()
	for rows.Next() {
		if rows.Scan(&t.id, &t.payment, &t.order, &t.user) == nil {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return t, false
	}
	return all[a.rng.IntN(len(all))], true
}

// refund requests the refund of a ticket, or of its whole payment.
func (a *moneyActor) refund(ctx context.Context) {
	t, ok := a.someTicket(ctx, []string{"", "VALID", "VALID"}[a.rng.IntN(3)])
	if !ok {
		return
	}
	var ticketIDs []uuid.UUID
	if a.rng.IntN(3) > 0 {
		ticketIDs = []uuid.UUID{t.id}
	}
	cause, key := []string{"USER", "USER", "OPERATOR"}[a.rng.IntN(3)], a.key()
	for range 1 + a.rng.IntN(4)/3 { // some send the request twice
		p := a.payment(a.replica())
		if err := p.code.RequestRefund(ctx, t.payment, cause, t.user, key, ticketIDs); err != nil {
			a.expectAnswer(p.moneyProcess, "RequestRefund", err)
		}
	}
}

// checkIn checks a ticket in at a door.
func (a *moneyActor) checkIn(ctx context.Context) {
	t, ok := a.someTicket(ctx, "VALID")
	if !ok {
		return
	}
	server := a.ticket(a.replica()).server
	own, err := ticketv1.NewTicketServiceClient(server).GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{
		Caller: &commonv1.Caller{UserId: t.user}, TicketId: t.id.String(),
	})
	if err == nil {
		_, _ = ticketv1.NewCheckInServiceClient(server).CheckIn(ctx, &ticketv1.CheckInRequest{
			Caller: &commonv1.Caller{UserId: "staff", Roles: []string{"staff"}}, EventId: own.GetEventId(), Code: own.GetCode(),
		})
	}
}

// void ends a ticket, or all of its order, as an operator. Some send the request twice.
func (a *moneyActor) void(ctx context.Context) {
	t, ok := a.someTicket(ctx, []string{"", "VALID", "USED"}[a.rng.IntN(3)])
	if !ok {
		return
	}
	whole := a.rng.IntN(3) == 0
	for range 1 + a.rng.IntN(4)/3 {
		orders, caller := ticketv1.NewOrderAdminServiceClient(a.ticket(a.replica()).server), &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
		if whole {
			_, _ = orders.VoidOrder(ctx, &ticketv1.VoidOrderRequest{Caller: caller, ReservationId: t.order.String(), Reason: "thief"})
		} else {
			_, _ = orders.VoidTicket(ctx, &ticketv1.VoidTicketRequest{Caller: caller, TicketId: t.id.String(), Reason: "thief"})
		}
	}
}

// passOn offers a ticket, as a gift or for money, and lets another user accept and pay for it, who
// may pass it on again. Sometimes one of the two cancels the offer, or nobody pays.
func (a *moneyActor) passOn(ctx context.Context) {
	t, ok := a.someTicket(ctx, "VALID")
	if !ok {
		return
	}
	id, seller := t.id.String(), t.user
	for range 1 + a.rng.IntN(3) {
		buyer := a.user()
		id = a.passTo(ctx, id, seller, buyer)
		if seller = buyer; id == "" {
			return
		}
	}
}

// passTo passes a ticket from a seller to a buyer, and returns the buyer's ticket; empty: none.
func (a *moneyActor) passTo(ctx context.Context, id, seller, buyer string) string {
	client := ticketv1.NewTransferServiceClient(a.ticket(a.replica()).server)
	offer, err := client.OfferTicket(ctx, &ticketv1.OfferTicketRequest{
		Caller: &commonv1.Caller{UserId: seller, IdempotencyKey: a.key()}, TicketId: id, Price: []int64{0, 20, 50, 60}[a.rng.IntN(4)],
	})
	if err != nil || offer.GetClaim() == "" {
		return ""
	}
	accepting := &ticketv1.AcceptTransferRequest{Caller: &commonv1.Caller{UserId: buyer}, Claim: offer.GetClaim()}
	accepted, err := client.AcceptTransfer(ctx, accepting)
	if err != nil {
		return ""
	}
	giveUp := func(user string) {
		_, _ = client.CancelTransfer(ctx, &ticketv1.CancelTransferRequest{Caller: &commonv1.Caller{UserId: user}, TransferId: offer.GetTransferId()})
	}
	switch a.rng.IntN(12) {
	case 0:
		giveUp(buyer)
	case 1:
		giveUp(seller) // the buyer pays all the same
	case 2:
		a.advance(time.Duration(a.rng.IntN(30)) * time.Minute)
	}
	if accepted.GetStatus() == "AWAITING_PAYMENT" {
		a.pay(ctx, "transfer", offer.GetTransferId(), buyer)
	}
	if accepted, err = client.AcceptTransfer(ctx, accepting); err != nil { // returns the present state
		return ""
	}
	return accepted.GetTicketId()
}

// cancel cancels an event, or undoes a cancellation whose refunds have not begun.
func (a *moneyActor) cancel(ctx context.Context) {
	admin := ticketv1.NewEventAdminServiceClient(a.ticket(a.replica()).server)
	event, caller := a.event(), &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
	if a.rng.IntN(3) == 0 {
		_, _ = admin.UndoCancelEvent(ctx, &ticketv1.UndoCancelEventRequest{Caller: caller, EventId: event})
		return
	}
	_, _ = admin.CancelEvent(ctx, &ticketv1.CancelEventRequest{Caller: caller, EventId: event, GraceSeconds: proto.Int32(60)})
}

// holdRefund holds a refund that waits for the provider, as an operator does.
func (a *moneyActor) holdRefund(ctx context.Context) {
	pending := texts(ctx, a.payDB, `SELECT id::text FROM refunds WHERE status = 'PENDING' ORDER BY id`)
	if len(pending) == 0 {
		return
	}
	id, err := uuid.Parse(pending[a.rng.IntN(len(pending))])
	p := a.payment(a.replica())
	if err == nil {
		err = p.code.HoldRefund(ctx, id)
	}
	a.expectAnswer(p.moneyProcess, "hold a refund", err)
}

// decideHeld lets a random replica decide about a held refund.
func (a *moneyActor) decideHeld(ctx context.Context) {
	a.decide(ctx, a.replica(), a.rng.IntN(4))
}

// decide retries or resolves the oldest held refund, as an operator does; way is below 4.
func (m *money) decide(ctx context.Context, replica, way int) {
	held := texts(ctx, m.payDB, `SELECT id::text FROM refunds WHERE status = 'HELD' ORDER BY created_at LIMIT 1`)
	if len(held) == 0 {
		return
	}
	id, err := uuid.Parse(held[0])
	p := m.payment(replica)
	switch {
	case err != nil:
	case way < 2:
		err = p.code.RetryRefund(ctx, id)
	default:
		err = p.code.ResolveRefund(ctx, id, way == 2)
	}
	m.expectAnswer(p.moneyProcess, "decide about a refund", err)
}

// assignByHand says what money by hand was for that nobody has assigned yet: some of the payment's
// tickets, or goodwill.
func (a *moneyActor) assignByHand(ctx context.Context) {
	found := texts(ctx, a.payDB, `SELECT id::text FROM payments WHERE hand > hand_used + goodwill ORDER BY id`)
	if len(found) == 0 {
		return
	}
	id, err := uuid.Parse(found[a.rng.IntN(len(found))])
	if err != nil {
		return
	}
	var tickets []uuid.UUID
	for _, text := range texts(ctx, a.ticketDB, `SELECT ticket_id::text FROM tickets WHERE payment_id = $1 ORDER BY ticket_id`, id) {
		if ticket, err := uuid.Parse(text); err == nil && a.rng.IntN(2) == 0 {
			tickets = append(tickets, ticket)
		}
	}
	var goodwill int64
	if len(tickets) == 0 {
		goodwill = 1 + a.rng.Int64N(60)
	}
	key := a.key()
	for range 1 + a.rng.IntN(4)/3 { // some send the request twice
		p := a.payment(a.replica())
		if err := p.code.AssignByHand(ctx, id, key, tickets, goodwill); err != nil {
			a.expectAnswer(p.moneyProcess, "AssignByHand", err)
		}
	}
}

func (a *moneyActor) forget(ctx context.Context) {
	a.topics.forget(ctx, a.ticketDB)
	a.topics.forget(ctx, a.payDB)
}

// webhook delivers one of the provider's webhooks. It returns false when there is none.
func (m *money) webhook(ctx context.Context) bool {
	headers, body, ok := m.provider.nextHook()
	if !ok {
		return false
	}
	_, _ = paymentv1.NewPaymentServiceClient(m.payment(m.provider.pick(moneyReplicas)).server).HandleWebhook(ctx,
		&paymentv1.HandleWebhookRequest{Provider: "sandbox", Headers: headers, Body: body})
	return true
}

// pause waits for a duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
