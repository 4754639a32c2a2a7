package refund_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

var (
	noon    = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	payment = uuid.New()
)

// inTime returns terms that allow refunds by users for one hour, and refunds by hand for two.
func inTime() refund.Terms {
	return refund.Terms{Now: noon, AfterSaleTerms: event.AfterSaleTerms{
		State: event.Open, RefundUntil: noon.Add(time.Hour), ClosesAt: noon.Add(2 * time.Hour), UserRefunds: true,
	}}
}

func request(cause refund.Cause) refund.Request {
	return refund.Request{
		ID: uuid.New(), PaymentID: payment, Cause: cause, UserID: "u", Whole: true, AskedAt: noon.Add(-time.Minute),
	}
}

// bought returns a ticket with a price of 70 and a fee of 5.
func bought(status ticket.Status) *ticket.Ticket {
	t := &ticket.Ticket{ID: uuid.New(), UserID: "u", PaymentID: payment, Price: 70, Paid: 75, Fee: 5, Status: status}
	if status == ticket.Refunding || status == ticket.Refunded {
		t.RefundID, t.GivenBack = uuid.New(), 75
	}
	return t
}

func TestDecideGivesWhatIsLeft(t *testing.T) {
	t.Parallel()
	keepFees := request(refund.Operator)
	keepFees.KeepFees = true
	now := request(refund.User)
	now.AskedAt = noon
	dated := inTime()
	dated.CancellationFees = event.CancellationFees{{Until: noon, Percent: 5}, {Until: noon.Add(time.Minute), Percent: 31}}
	postponed := dated
	postponed.FeesUntil, postponed.PostponedAt = noon.Add(time.Second), noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		req   refund.Request
		sale  refund.Terms
		given int64
		want  int64
	}{
		"by its user":             {request(refund.User), inTime(), 0, 70},
		"by an operator":          {request(refund.Operator), inTime(), 0, 75},
		"without the fee":         {keepFees, inTime(), 0, 70},
		"by hand":                 {request(refund.ByHand), inTime(), 0, 75},
		"what was not given yet":  {request(refund.Operator), inTime(), 30, 45},
		"nothing but the fee":     {request(refund.User), inTime(), 75, 0},
		"by its user, given some": {request(refund.User), inTime(), 30, 40},
		"31 % of 70 are 21.7":     {now, dated, 0, 49},
		"more than what is left":  {now, dated, 60, 0},
		"dated, by an operator":   {request(refund.Operator), dated, 0, 75},
		"dated, without the fee":  {keepFees, dated, 0, 70},
		"dated, by hand":          {request(refund.ByHand), dated, 0, 75},
		"dated, but postponed":    {request(refund.User), postponed, 0, 75},
	} {
		tk := bought(ticket.Valid)
		tk.GivenBack = c.given
		claim := refund.Decide(c.req, []*ticket.Ticket{tk}, c.sale)
		require.Equal(t, refund.Claim{
			ID: c.req.ID, PaymentID: payment, Cause: c.req.Cause, Status: refund.Begun, BegunAt: noon,
			Items: []refund.Item{{TicketID: tk.ID, Amount: c.want}},
		}, claim, name)
		require.Equal(t, ticket.Refunding, tk.Status, name)
		require.Equal(t, c.given+c.want, tk.GivenBack, name)
		require.Equal(t, c.req.ID, tk.RefundID, name)
	}
}

// A refund claims all tickets whose ids the request has, or none. Without ids it claims VALID ones.
func TestDecideInEveryStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []ticket.Status{ticket.Used, ticket.Transferring, ticket.Transferred, ticket.Refunding, ticket.Refunded} {
		for _, cause := range []refund.Cause{refund.User, refund.Operator, refund.ByHand} {
			valid, other := bought(ticket.Valid), bought(status)
			before := *other
			c := refund.Decide(request(cause), []*ticket.Ticket{other, valid}, inTime())
			require.Equal(t, refund.Begun, c.Status, "%s %s", cause, status)
			require.Equal(t, []uuid.UUID{valid.ID}, c.TicketIDs())
			require.Equal(t, []refund.ExcludedTicket{{TicketID: other.ID, Reason: string(status)}}, c.Excluded)
			require.Equal(t, before, *other)

			if cause == refund.ByHand { // see TestMoneyByHandForTickets
				continue
			}
			valid = bought(ticket.Valid)
			req := request(cause)
			req.TicketIDs = []uuid.UUID{valid.ID, other.ID}
			c = refund.Decide(req, []*ticket.Ticket{valid, other}, inTime())
			require.Equal(t, refund.Refused, c.Status, "%s %s", cause, status)
			require.Equal(t, refund.ReasonNotRefundable, c.Reason)
			require.Equal(t, []refund.ExcludedTicket{{TicketID: other.ID, Reason: string(status)}}, c.Excluded)
			require.Empty(t, c.Items)
			require.Equal(t, ticket.Valid, valid.Status)

			alone := refund.Decide(request(cause), []*ticket.Ticket{other}, inTime())
			require.Equal(t, refund.Refused, alone.Status, "nothing is left to claim")
		}
	}
}

// Users, operators and refunds by hand have different rules and deadlines.
func TestDecideRefuses(t *testing.T) {
	t.Parallel()
	const tooLate, notYours, eventCancelled = refund.ExcludedTooLate, refund.ExcludedNotYours, refund.ReasonEventCancelled
	for name, c := range map[string]struct {
		change func(req *refund.Request, tk *ticket.Ticket, sale *refund.Terms)
		// The answers to a user, an operator, and a refund by hand: the problem of a ticket, the reason
		// of the refusal, or nothing.
		user, operator, byHand string
	}{
		"in time":     {func(*refund.Request, *ticket.Ticket, *refund.Terms) {}, "", "", ""},
		"last moment": {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.Now = s.RefundUntil.Add(-1) }, "", "", ""},
		"users' end": {func(r *refund.Request, _ *ticket.Ticket, s *refund.Terms) {
			r.AskedAt, s.Now = s.RefundUntil, s.RefundUntil
		}, tooLate, "", ""},
		"no refunds": {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.UserRefunds = false }, refund.ExcludedNoRefunds, "", ""},
		"closed":     {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.Now = s.ClosesAt }, tooLate, "", tooLate},
		"paused":     {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Paused }, "", "", ""},
		"cancelled":  {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Cancelled }, eventCancelled, eventCancelled, ""},
		"ended":      {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Ended }, eventCancelled, eventCancelled, ""},
		"passed on":  {func(_ *refund.Request, tk *ticket.Ticket, _ *refund.Terms) { tk.UserID = "v" }, notYours, "", ""},
		"not paid":   {func(_ *refund.Request, tk *ticket.Ticket, _ *refund.Terms) { tk.PaymentID = uuid.New() }, notYours, notYours, notYours},
		"asked late": {func(r *refund.Request, _ *ticket.Ticket, _ *refund.Terms) { r.AskedAt = noon.Add(-7 * 24 * time.Hour) }, refund.ReasonTooOld, refund.ReasonTooOld, ""},
		"missing": {func(r *refund.Request, tk *ticket.Ticket, _ *refund.Terms) {
			if r.Cause != refund.ByHand { // a refund at the provider names none
				r.TicketIDs = []uuid.UUID{tk.ID, uuid.New()}
			}
		}, notYours, notYours, ""},
	} {
		for cause, want := range map[refund.Cause]string{refund.User: c.user, refund.Operator: c.operator, refund.ByHand: c.byHand} {
			req, tk, sale := request(cause), bought(ticket.Valid), inTime()
			c.change(&req, tk, &sale)
			claim := refund.Decide(req, []*ticket.Ticket{tk}, sale)
			got := claim.Reason
			if len(claim.Excluded) > 0 {
				got = claim.Excluded[0].Reason
			}
			require.Equal(t, want, got, "%s, %s", name, cause)
			if cause == refund.ByHand {
				require.Equal(t, refund.Begun, claim.Status, "%s: the money is gone, whatever is thought of it", name)
			} else {
				require.Equal(t, want != "", claim.Status == refund.Refused, "%s, %s", name, cause)
			}
			require.Equal(t, len(claim.Items) == 1, tk.Status == ticket.Refunding, "%s, %s", name, cause)
		}
	}
}

// A user's request is judged by the time at which it was made, and not by that of the decision. Only
// the end of all refunds is the present one.
func TestUsersAreJudgedByTheTimeOfAsking(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, c := range map[string]struct {
		asked, now time.Duration // after noon
		want       int64
		problem    string
	}{
		"before the step":              {-second, 5 * second, 70, ""},
		"at the step":                  {0, 5 * second, 49, ""},
		"before the end":               {time.Hour - second, time.Hour + 4*second, 49, ""},
		"at the end":                   {time.Hour, time.Hour + 4*second, 0, refund.ExcludedTooLate},
		"before the end of all":        {time.Hour - second, 2*time.Hour - second, 49, ""},
		"at the end of all":            {time.Hour - second, 2 * time.Hour, 0, refund.ExcludedTooLate},
		"by a clock that is fast":      {time.Minute, -second, 70, ""},
		"while fees are given back":    {-time.Hour - second, second, 75, ""},
		"after fees were given back":   {-time.Hour, second, 70, ""},
		"before a week, as it is late": {-7 * 24 * time.Hour, 0, 0, refund.ReasonTooOld},
	} {
		sale := inTime()
		sale.CancellationFees = event.CancellationFees{{Until: noon, Percent: 0}, {Until: noon.Add(time.Hour), Percent: 30}}
		sale.FeesUntil, sale.PostponedAt, sale.Now = noon.Add(-time.Hour), noon.Add(-2*time.Hour), noon.Add(c.now)
		req, tk := request(refund.User), bought(ticket.Valid)
		req.AskedAt = noon.Add(c.asked)
		claim := refund.Decide(req, []*ticket.Ticket{tk}, sale)
		got := claim.Reason
		if len(claim.Excluded) > 0 {
			got = claim.Excluded[0].Reason
		}
		require.Equal(t, c.problem, got, name)
		if c.problem == "" {
			require.Equal(t, []refund.Item{{TicketID: tk.ID, Amount: c.want}}, claim.Items, name)
		}
	}
}

// Of terms that were changed since a user has asked, the better ones count for that user.
func TestTheBetterTermsCount(t *testing.T) {
	t.Parallel()
	fees := func(percent int32) event.AfterSaleTerms {
		return event.AfterSaleTerms{
			State: event.Open, UserRefunds: true, RefundUntil: noon.Add(time.Hour), ClosesAt: noon.Add(2 * time.Hour),
			CancellationFees: event.CancellationFees{{Until: noon.Add(time.Hour), Percent: percent}},
		}
	}
	never, over, postponed := fees(0), fees(0), fees(50)
	never.UserRefunds, over.RefundUntil, postponed.FeesUntil = false, noon.Add(-time.Hour), noon.Add(time.Hour)
	postponed.PostponedAt = noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		present event.AfterSaleTerms
		former  []event.AfterSaleTerms
		want    int64
		problem string
	}{
		"higher fees":                {fees(50), []event.AfterSaleTerms{fees(10)}, 63, ""},
		"lower fees":                 {fees(10), []event.AfterSaleTerms{fees(50)}, 63, ""},
		"changed twice":              {fees(50), []event.AfterSaleTerms{fees(30), fees(20)}, 56, ""},
		"none any more":              {never, []event.AfterSaleTerms{fees(50)}, 35, ""},
		"an earlier end":             {over, []event.AfterSaleTerms{fees(50)}, 35, ""},
		"there were none":            {fees(50), []event.AfterSaleTerms{never, over}, 35, ""},
		"never any":                  {never, []event.AfterSaleTerms{never}, 0, refund.ExcludedNoRefunds},
		"over before and after":      {over, []event.AfterSaleTerms{over, never}, 0, refund.ExcludedTooLate},
		"postponed meanwhile":        {postponed, []event.AfterSaleTerms{fees(50)}, 75, ""},
		"of the postponement before": {fees(50), []event.AfterSaleTerms{postponed}, 75, ""},
	} {
		req, tk := request(refund.User), bought(ticket.Valid)
		claim := refund.Decide(req, []*ticket.Ticket{tk}, refund.Terms{AfterSaleTerms: c.present, Former: c.former, Now: noon})
		if c.problem != "" {
			require.Equal(t, []refund.ExcludedTicket{{TicketID: tk.ID, Reason: c.problem}}, claim.Excluded, name)
			continue
		}
		require.Equal(t, []refund.Item{{TicketID: tk.ID, Amount: c.want}}, claim.Items, name)
		byOperator := request(refund.Operator)
		claim = refund.Decide(byOperator, []*ticket.Ticket{bought(ticket.Valid)}, refund.Terms{AfterSaleTerms: c.present, Former: c.former, Now: noon})
		require.EqualValues(t, 75, claim.Items[0].Amount, "%s: operators have no terms", name)
	}
}

// A request that carries the amount that was shown never gets less, and never more than without it.
func TestShownAmounts(t *testing.T) {
	t.Parallel()
	for _, cause := range []refund.Cause{refund.User, refund.Operator} {
		without := refund.Decide(request(cause), []*ticket.Ticket{bought(ticket.Valid), bought(ticket.Valid)}, inTime())
		sum := without.Amounts()[0] + without.Amounts()[1]
		for shown, refused := range map[int64]bool{0: false, sum - 1: false, sum: false, sum + 1: true, 1 << 60: true} {
			req, tickets := request(cause), []*ticket.Ticket{bought(ticket.Valid), bought(ticket.Valid)}
			before := *tickets[0]
			req.Shown = &shown
			claim := refund.Decide(req, tickets, inTime())
			if !refused {
				require.Equal(t, without.Amounts(), claim.Amounts(), shown)
				continue
			}
			require.Equal(t, refund.Claim{
				ID: req.ID, PaymentID: payment, Cause: cause, Status: refund.Refused, Reason: refund.ReasonAmountChanged, BegunAt: noon, PresentAmount: sum,
			}, claim, shown)
			require.Equal(t, before, *tickets[0])
		}
	}
}

// A refund by hand of a part of the payment ends no ticket: nobody knows which one it was for.
func TestRefundByHandInPart(t *testing.T) {
	t.Parallel()
	req, tk := request(refund.ByHand), bought(ticket.Valid)
	req.Whole = false
	c := refund.Decide(req, []*ticket.Ticket{tk}, inTime())
	require.Equal(t, refund.Begun, c.Status)
	require.Empty(t, c.Items)
	require.Equal(t, ticket.Valid, tk.Status)
	require.False(t, req.EndsUnknownPayment(0), "the rest still pays")
	req.Whole = true
	require.True(t, req.EndsUnknownPayment(0))
	require.False(t, req.EndsUnknownPayment(1))
}

// An operator names the tickets for which a person has given money back by hand. Those that admit
// somebody end, also when doors have lists; of the others only what was given back rises, at most to
// what was paid. All together get at most what was given by hand.
func TestMoneyByHandForTickets(t *testing.T) {
	t.Parallel()
	assign := func(limit int64, terms refund.Terms, tickets ...*ticket.Ticket) refund.Claim {
		req := request(refund.ByHand)
		req.Whole, req.HandLimit = false, limit
		for _, tk := range tickets {
			req.TicketIDs = append(req.TicketIDs, tk.ID)
		}
		return refund.Decide(req, tickets, terms)
	}
	closed := inTime()
	closed.Now = closed.ClosesAt
	valid, used, voided, keptFee := bought(ticket.Valid), bought(ticket.Used), bought(ticket.Voided), bought(ticket.Refunded)
	voided.GivenBack, keptFee.GivenBack = 60, 70
	earlier := keptFee.RefundID
	c := assign(150, closed, valid, voided, keptFee, used)
	require.Equal(t, refund.Begun, c.Status)
	require.Equal(t, []int64{75, 15, 5, 55}, c.Amounts())
	for _, tk := range []*ticket.Ticket{valid, used} {
		require.Equal(t, ticket.Refunding, tk.Status)
		require.Equal(t, c.ID, tk.RefundID)
	}
	require.Equal(t, []int64{75, 55, 75, 75}, []int64{valid.GivenBack, used.GivenBack, voided.GivenBack, keptFee.GivenBack})
	require.Equal(t, []ticket.Status{ticket.Voided, ticket.Refunded}, []ticket.Status{voided.Status, keptFee.Status})
	require.Equal(t, earlier, keptFee.RefundID)

	paidBack := bought(ticket.Transferred)
	paidBack.GivenBack = 75
	other := bought(ticket.Valid)
	other.PaymentID = uuid.New()
	for reason, tk := range map[string]*ticket.Ticket{
		"REFUNDING": bought(ticket.Refunding), "TRANSFERRING": bought(ticket.Transferring), "REFUNDED": bought(ticket.Refunded),
		"TRANSFERRED": paidBack, refund.ExcludedNotYours: other,
	} {
		before, beside := *tk, bought(ticket.Valid)
		c := assign(100, inTime(), beside, tk)
		require.Equal(t, refund.Refused, c.Status, reason)
		require.Equal(t, []refund.ExcludedTicket{{TicketID: tk.ID, Reason: reason}}, c.Excluded)
		require.Equal(t, before, *tk)
		require.Equal(t, ticket.Valid, beside.Status, "all or none")
	}
	covered, uncovered := bought(ticket.Valid), bought(ticket.Used)
	c = assign(75, inTime(), covered, uncovered)
	require.Equal(t, []refund.ExcludedTicket{{TicketID: uncovered.ID, Reason: refund.ExcludedNotCovered}}, c.Excluded)
	require.Equal(t, refund.ReasonNotRefundable, c.Reason)
	require.Empty(t, c.Items)
	require.Equal(t, []ticket.Status{ticket.Valid, ticket.Used}, []ticket.Status{covered.Status, uncovered.Status})
	cancelled := inTime()
	cancelled.State = event.Cancelled
	require.Equal(t, refund.ReasonEventCancelled, assign(100, cancelled, bought(ticket.Valid)).Reason, "it gives everything back by itself")
	none := request(refund.ByHand)
	none.TicketIDs = []uuid.UUID{uuid.New()}
	require.Equal(t, refund.ReasonNotRefundable, refund.Decide(none, nil, inTime()).Reason)
}

// OfferTo returns exactly what a request for a refund by the ticket's holder would get.
func TestOfferIsWhatARequestGets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tk *ticket.Ticket, sale *refund.Terms){
		"in time": func(*ticket.Ticket, *refund.Terms) {},
		"given":   func(tk *ticket.Ticket, _ *refund.Terms) { tk.GivenBack = 30 },
		"dated": func(_ *ticket.Ticket, s *refund.Terms) {
			s.CancellationFees = event.CancellationFees{{Until: noon, Percent: 50}}
		},
		"used":      func(tk *ticket.Ticket, _ *refund.Terms) { tk.Status = ticket.Used },
		"refunded":  func(tk *ticket.Ticket, _ *refund.Terms) { tk.Status = ticket.Refunded },
		"too late":  func(_ *ticket.Ticket, s *refund.Terms) { s.Now = s.RefundUntil },
		"none":      func(_ *ticket.Ticket, s *refund.Terms) { s.UserRefunds = false },
		"cancelled": func(_ *ticket.Ticket, s *refund.Terms) { s.State = event.Cancelled },
	} {
		tk, sale := bought(ticket.Valid), inTime()
		change(tk, &sale)
		offer := refund.OfferTo(tk, sale)
		req := request(refund.User)
		req.TicketIDs, req.AskedAt = []uuid.UUID{tk.ID}, sale.Now
		claim := refund.Decide(req, []*ticket.Ticket{tk}, sale)
		switch {
		case offer.Reason == "":
			require.Equal(t, []refund.Item{{TicketID: tk.ID, Amount: offer.Amount}}, claim.Items, name)
		case claim.Reason == refund.ReasonEventCancelled:
			require.Equal(t, claim.Reason, offer.Reason, name)
		default:
			require.Equal(t, []refund.ExcludedTicket{{TicketID: tk.ID, Reason: offer.Reason}}, claim.Excluded, name)
		}
		require.Equal(t, sale.UserRefunds, !offer.Until.IsZero(), name)
	}
	gift := bought(ticket.Valid)
	gift.PaymentID = uuid.Nil
	require.Equal(t, refund.ReasonNotPaid, refund.OfferTo(gift, inTime()).Reason)
}

// After a postponement, an offer says until when all comes back, and until when anything does. Then
// the amount is the one of the event's terms.
func TestOffersAfterAPostponement(t *testing.T) {
	t.Parallel()
	sale := inTime()
	sale.FeesUntil, sale.PostponedAt = noon.Add(time.Second), noon.Add(-time.Hour)
	require.True(t, sale.RefundUntil.After(sale.FeesUntil))
	paid := bought(ticket.Valid)
	require.Equal(t, refund.Offer{Until: sale.RefundUntil, Amount: 75, FullUntil: sale.FeesUntil}, refund.OfferTo(paid, sale))
	require.Zero(t, refund.OfferTo(bought(ticket.Used), sale).FullUntil)
	gift := bought(ticket.Valid)
	gift.PaymentID = uuid.Nil
	require.Zero(t, refund.OfferTo(gift, sale).FullUntil, "nothing can be given back")
	later := bought(ticket.Valid)
	later.ChosenAt = sale.PostponedAt
	require.Equal(t, refund.Offer{Until: sale.RefundUntil, Amount: 70}, refund.OfferTo(later, sale), "bought for the new date")
	sale.Now = sale.FeesUntil
	require.Equal(t, refund.Offer{Until: sale.RefundUntil, Amount: 70}, refund.OfferTo(paid, sale))
}
