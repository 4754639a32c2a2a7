package rpc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire/wiretest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fullSpec has every setting that an event with this seating may have.
func fullSpec(seating string) *ticketv1.EventSpec {
	overrides := map[string]any{
		"seating": seating, "currency": "USD", "time_zone": "America/Argentina/Buenos_Aires",
		"starts_at": timestamppb.New(opening.Add(48 * time.Hour)),
		"doors_at":  timestamppb.New(opening.Add(46 * time.Hour)), "closes_at": timestamppb.New(opening.Add(45 * time.Hour)),
		"presale.opens_at": timestamppb.New(opening.Add(-2 * time.Hour)), "presale.any": nil,
		"transferable": "PRICED", "statement_suffix": "AUTUMN", "returns_to": "HOUSE", "refund_until": opening.Add(44 * time.Hour).UTC().Format(time.RFC3339),
		"sales_open_at": timestamppb.New(opening.Add(-time.Hour)), "sales_close_at": timestamppb.New(opening.Add(24 * time.Hour)),
	}
	if seating == "ASSIGNED" {
		overrides["sections.capacity"] = nil
	} else {
		overrides["sections.rows"], overrides["sections.seats_per_row"] = nil, nil
	}
	spec := &ticketv1.EventSpec{}
	wiretest.Fill(spec, overrides)
	spec.Presale.Any = presaleWays()
	return spec
}

// fans is the id of the plan of memberships in the presale of fullSpec.
const fans = "fans"

func (c *client) addFans(t *testing.T) {
	t.Helper()
	_, err := c.pool.Exec(t.Context(),
		`INSERT INTO membership_plans (plan_id, name, price, currency, months, created_at) VALUES ($1, 'Fans', 10000, 'KRW', 12, now())`, fans)
	require.NoError(t, err)
}

// presaleWays has one way to an entitlement of each kind.
func presaleWays() []*ticketv1.PresaleWay {
	return []*ticketv1.PresaleWay{
		{PlanId: new(fans), BoughtBefore: timestamppb.New(opening.Add(-24 * time.Hour))}, {CodeList: new("friends")}, {List: new("partners")},
		{Claim: new("tier"), Values: []string{"gold", "silver"}},
	}
}

// Every setting is stored when an event is created, by POST or PUT, and when another one is
// changed. It is then in the settings, which may be put again, and in the event. Settings left out
// stay. A new field of EventSpec needs a line in fullSpec only if its rules refuse what Fill sets.
func TestSettingsRoundTrip(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.addFans(t)
	require.Empty(t, wiretest.Unset(fullSpec("ASSIGNED"), fullSpec("GENERAL")))
	requireStored := func(want *ticketv1.EventSpec, answer *ticketv1.Event) {
		t.Helper()
		got, err := c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: admin(), EventId: answer.GetEventId()})
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got.GetSpec(), protocmp.Transform()))
		require.Equal(t, answer.GetEtag(), got.GetEtag())
		wiretest.RequireShown(t, want, answer, "sections", "refund_until", "presale") // an event has them in another form
		shown := proto.CloneOf(want.GetPresale())
		shown.Any[3].Values = nil // only operators see them
		require.Empty(t, cmp.Diff(shown, answer.GetPresale(), protocmp.Transform()))
		require.Equal(t, want.GetRefundUntil(), answer.GetRefundUntil().AsTime().Format(time.RFC3339))
	}
	for _, seating := range []string{"ASSIGNED", "GENERAL"} {
		full := fullSpec(seating)
		created, err := c.CreateEvent(t.Context(), &ticketv1.CreateEventRequest{Caller: admin(), Spec: full})
		require.NoError(t, err)
		requireStored(full, created)

		req := &ticketv1.PutEventRequest{Caller: admin(), EventId: "new-" + seating, Spec: full}
		put := c.put(t, req)
		requireStored(full, put)
		req.Caller.IfMatch = `"` + put.GetEtag() + `"`
		require.Equal(t, put.GetEtag(), c.put(t, req).GetEtag())
		require.EqualValues(t, 1, version(t, c, req.GetEventId()), "nothing changed")

		other := putEvent("other-"+seating, map[string]string{"ASSIGNED": "GENERAL", "GENERAL": "ASSIGNED"}[seating], rows("A", 1, 4))
		if seating == "ASSIGNED" {
			other.Spec.Sections[0] = admissions("A", 4)
		}
		other.Spec.SalesOpenAt = timestamppb.New(opening.Add(time.Hour)) // else the sections are locked
		c.put(t, other)
		other.Spec = full
		requireStored(full, c.put(t, other))

		other.Spec = required(full)
		requireStored(full, c.put(t, other))
	}
}

// required returns the spec without the settings that may be left out.
func required(full *ticketv1.EventSpec) *ticketv1.EventSpec {
	spec, _ := proto.Clone(full).(*ticketv1.EventSpec)
	fields := spec.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.HasOptionalKeyword() {
			spec.ProtoReflect().Clear(fd)
		}
	}
	return spec
}

func TestSettingsAreForOperators(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.addFans(t)
	full := fullSpec("GENERAL")
	c.put(t, &ticketv1.PutEventRequest{Caller: admin(), EventId: "e", Spec: full})
	_, err := c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: admin(), EventId: "nowhere"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: signedIn("u"), EventId: "e"})
	requireReason(t, err, "ROLE_REQUIRED")
	seen, err := c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)
	require.Nil(t, seen.Threshold, "settings are not for visitors")
	require.Nil(t, seen.Expected)
	require.Equal(t, full.GetTimeZone(), seen.GetTimeZone())
	require.Nil(t, seen.Etag)
}

func version(t *testing.T, c *client, event string) (n int64) {
	t.Helper()
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT version FROM events WHERE event_id = $1`, event).Scan(&n))
	return n
}

// The answer to a PUT has the settings in force, not those of the request.
func TestPutEventReturnsTheSettingsInForce(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := putEvent("e", "GENERAL", admissions("S", 100))
	req.Spec.Threshold = ptr(int64(50))
	c.put(t, req)
	_, err := c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: "e", Threshold: ptr(int64(5))})
	require.NoError(t, err)
	req.Spec.Title, req.Spec.Threshold = "Mended", nil
	put := c.put(t, req)
	require.Equal(t, "Mended", put.GetTitle())
	require.EqualValues(t, 5, put.GetThreshold())
	require.Nil(t, put.SlotSeconds, "the queue's default")
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := putEvent("e", "GENERAL", admissions("S", 100))
	etag := c.put(t, req).GetEtag()
	putIfMatch := func(match string) error {
		conditional, _ := proto.Clone(req).(*ticketv1.PutEventRequest)
		conditional.Caller.IfMatch = match
		_, err := c.PutEvent(t.Context(), conditional)
		return err
	}
	for _, match := range []string{"*", ` "` + etag + `"`, `"x" ,, "` + etag + `",`, `W/"x", "` + etag + `"`, `"a,b", "` + etag + `"`} {
		require.NoError(t, putIfMatch(match), match)
	}
	for _, match := range []string{`"x"`, `W/"` + etag + `"`, `""`} {
		requireReason(t, putIfMatch(match), "PRECONDITION_FAILED")
	}
	for _, match := range []string{etag, `"` + etag, `"x" "` + etag + `"`, `*, "x"`, `w/"x"`, ","} {
		requireReason(t, putIfMatch(match), "INVALID_REQUEST", "If-Match")
	}
	req.EventId = "absent"
	requireReason(t, putIfMatch("*"), "PRECONDITION_FAILED")
}

// Users see how much they get back for a ticket, and until when. A PUT cannot move sold dates.
func TestTimesOfRefunds(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := putEvent("e", "ASSIGNED", rows("A", 1, 5))
	req.Spec.Sections[0].Fee = 1000
	put := c.put(t, req)
	require.EqualValues(t, 1000, put.GetSections()[0].GetFee())
	require.Equal(t, opening.Add(47*time.Hour).UTC(), put.GetClosesAt().AsTime())
	require.Equal(t, put.GetClosesAt().AsTime(), put.GetRefundUntil().AsTime())
	require.Nil(t, put.DoorsAt)
	for member, spec := range map[string]func(s *ticketv1.EventSpec){
		"expected.visitors": func(s *ticketv1.EventSpec) { s.Expected = &commonv1.Expected{WithinSeconds: 60} },
		"refundUntil":       func(s *ticketv1.EventSpec) { s.RefundUntil = ptr("never") },
		"doorsAt":           func(s *ticketv1.EventSpec) { s.DoorsAt = timestamppb.New(opening.Add(49 * time.Hour)) },
		"closesAt":          func(s *ticketv1.EventSpec) { s.ClosesAt = timestamppb.New(opening.Add(49 * time.Hour)) },
	} {
		bad := proto.CloneOf(req)
		spec(bad.Spec)
		_, err := c.PutEvent(t.Context(), bad)
		requireReason(t, err, "INVALID_REQUEST", member)
	}

	r := c.holdSeats(t, "u", "A-1-1")
	require.EqualValues(t, 56000, r.GetAmount())
	paymentID := uuid.New()
	c.pay(t, r, paymentID)
	mine := func() *ticketv1.Ticket {
		list, err := c.ListMyTickets(t.Context(), &ticketv1.ListMyTicketsRequest{Caller: signedIn("u")})
		require.NoError(t, err)
		return list.GetItems()[0]
	}
	got := mine()
	require.Equal(t, paymentID.String(), got.GetPaymentId())
	require.EqualValues(t, 55000, got.GetPrice())
	require.EqualValues(t, 1000, got.GetFee())
	require.EqualValues(t, 55000, got.GetRefundable().GetAmount())
	require.Equal(t, put.GetRefundUntil().AsTime(), got.GetRefundable().GetUntil().AsTime())
	require.Nil(t, got.GetRefundable().Reason)

	for member, spec := range map[string]func(s *ticketv1.EventSpec){
		"startsAt": func(s *ticketv1.EventSpec) { s.StartsAt = timestamppb.New(opening.Add(50 * time.Hour)) },
		"doorsAt":  func(s *ticketv1.EventSpec) { s.DoorsAt = timestamppb.New(opening.Add(46 * time.Hour)) },
		"closesAt": func(s *ticketv1.EventSpec) { s.ClosesAt = timestamppb.New(opening.Add(46 * time.Hour)) },
	} {
		moved := proto.CloneOf(req)
		spec(moved.Spec)
		_, err := c.PutEvent(t.Context(), moved)
		requireReason(t, err, "USE_POSTPONE")
		require.Equal(t, member, errs.From(err).Metadata["member"])
	}
	until := opening.Add(24 * time.Hour)
	req.Spec.CancellationFees = &ticketv1.CancellationFees{Steps: []*ticketv1.CancellationFee{
		{Until: timestamppb.New(until), Percent: 10}, {Until: timestamppb.New(until), Percent: 30},
	}}
	_, err := c.PutEvent(t.Context(), req)
	requireReason(t, err, "INVALID_REQUEST", "cancellationFees.steps[1].until")
	req.Spec.CancellationFees.Steps = req.Spec.CancellationFees.Steps[:1]
	c.put(t, req)
	require.EqualValues(t, 49500, mine().GetRefundable().GetAmount())
	id := uuid.NewString()
	claim, err := c.BeginRefund(t.Context(), &ticketv1.BeginRefundRequest{
		RefundId: id, PaymentId: paymentID.String(), PaymentType: "reservation", ReferenceId: r.GetReservationId(), Cause: "USER", UserId: "u", AskedAt: timestamppb.New(c.clock.Now()),
	})
	require.NoError(t, err)
	require.EqualValues(t, 49500, claim.GetItems()[0].GetAmount())
	_, err = c.AbortRefund(t.Context(), &ticketv1.AbortRefundRequest{RefundId: id})
	require.NoError(t, err)
	req.Spec.CancellationFees.Steps = nil
	require.Nil(t, c.put(t, req).GetCancellationFees(), "none again")
	require.EqualValues(t, 55000, mine().GetRefundable().GetAmount())

	req.Spec.RefundUntil = ptr("none")
	require.Nil(t, c.put(t, req).GetRefundUntil())
	require.Nil(t, mine().GetRefundable().GetUntil())
	require.Equal(t, "NO_REFUNDS", mine().GetRefundable().GetReason())
	until = opening.Add(20 * time.Hour)
	_, err = c.PostponeEvent(t.Context(), &ticketv1.PostponeEventRequest{
		Caller: admin(), EventId: "e", StartsAt: timestamppb.New(opening.Add(720 * time.Hour)), RefundUntil: timestamppb.New(until),
	})
	require.NoError(t, err)
	require.EqualValues(t, 56000, mine().GetRefundable().GetAmount(), "with the fee")
	require.Equal(t, until, mine().GetRefundable().GetFullUntil().AsTime())
	require.Equal(t, until, mine().GetRefundable().GetUntil().AsTime())
	c.clock.Set(until)
	require.Nil(t, mine().GetRefundable().GetFullUntil())
	require.Equal(t, "NO_REFUNDS", mine().GetRefundable().GetReason())
}
