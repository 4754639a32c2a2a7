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
	return refund.Terms{Now: noon, Closing: event.Closing{
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
	dated := inTime()
	dated.CancellationFees = event.CancellationFees{{Until: noon, Percent: 5}, {Until: noon.Add(time.Minute), Percent: 31}}
	postponed := dated
	postponed.FeesUntil = noon.Add(time.Second)
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
		"31 % of 70 are 21.7":     {request(refund.User), dated, 0, 49},
		"more than what is left":  {request(refund.User), dated, 60, 0},
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
			require.Equal(t, []refund.Problem{{TicketID: other.ID, Reason: string(status)}}, c.Problems)
			require.Equal(t, before, *other)

			if cause == refund.ByHand { // a refund by hand has no ticket ids
				continue
			}
			valid = bought(ticket.Valid)
			req := request(cause)
			req.TicketIDs = []uuid.UUID{valid.ID, other.ID}
			c = refund.Decide(req, []*ticket.Ticket{valid, other}, inTime())
			require.Equal(t, refund.Refused, c.Status, "%s %s", cause, status)
			require.Equal(t, refund.ReasonNotRefundable, c.Reason)
			require.Equal(t, []refund.Problem{{TicketID: other.ID, Reason: string(status)}}, c.Problems)
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
	const tooLate, notYours, eventCancelled = refund.ProblemTooLate, refund.ProblemNotYours, refund.ReasonEventCancelled
	for name, c := range map[string]struct {
		change func(req *refund.Request, tk *ticket.Ticket, sale *refund.Terms)
		// The answers to a user, an operator, and a refund by hand: the problem of a ticket, the reason
		// of the refusal, or nothing.
		user, operator, byHand string
	}{
		"in time":     {func(*refund.Request, *ticket.Ticket, *refund.Terms) {}, "", "", ""},
		"last moment": {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.Now = s.RefundUntil.Add(-1) }, "", "", ""},
		"users' end":  {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.Now = s.RefundUntil }, tooLate, "", ""},
		"no refunds":  {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.UserRefunds = false }, refund.ProblemNoRefunds, "", ""},
		"closed":      {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.Now = s.ClosesAt }, tooLate, "", tooLate},
		"paused":      {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Paused }, "", "", ""},
		"cancelled":   {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Cancelled }, eventCancelled, eventCancelled, ""},
		"ended":       {func(_ *refund.Request, _ *ticket.Ticket, s *refund.Terms) { s.State = event.Ended }, eventCancelled, eventCancelled, ""},
		"passed on":   {func(_ *refund.Request, tk *ticket.Ticket, _ *refund.Terms) { tk.UserID = "v" }, notYours, "", ""},
		"not paid":    {func(_ *refund.Request, tk *ticket.Ticket, _ *refund.Terms) { tk.PaymentID = uuid.New() }, notYours, notYours, notYours},
		"asked late":  {func(r *refund.Request, _ *ticket.Ticket, _ *refund.Terms) { r.AskedAt = noon.Add(-7 * 24 * time.Hour) }, refund.ReasonTooOld, refund.ReasonTooOld, ""},
		"missing": {func(r *refund.Request, tk *ticket.Ticket, _ *refund.Terms) {
			r.TicketIDs = []uuid.UUID{tk.ID, uuid.New()}
		}, notYours, notYours, notYours},
	} {
		for cause, want := range map[refund.Cause]string{refund.User: c.user, refund.Operator: c.operator, refund.ByHand: c.byHand} {
			req, tk, sale := request(cause), bought(ticket.Valid), inTime()
			c.change(&req, tk, &sale)
			claim := refund.Decide(req, []*ticket.Ticket{tk}, sale)
			got := claim.Reason
			if len(claim.Problems) > 0 {
				got = claim.Problems[0].Reason
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
			require.Equal(t, []refund.Problem{{TicketID: tk.ID, Reason: offer.Reason}}, claim.Problems, name)
		}
		require.Equal(t, sale.UserRefunds, !offer.Until.IsZero(), name)
	}
	gift := bought(ticket.Valid)
	gift.PaymentID = uuid.Nil
	require.Equal(t, refund.ReasonNotPaid, refund.OfferTo(gift, inTime()).Reason)
}
