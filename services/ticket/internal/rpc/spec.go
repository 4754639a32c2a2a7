package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

// noRefunds is the value of refundUntil for an event whose users cannot give tickets back.
const noRefunds = "none"

func toSpec(in *ticketv1.EventSpec) (event.Spec, error) {
	s := event.Spec{
		Title: in.GetTitle(), Artist: in.GetArtist(), Venue: in.GetVenue(), StartsAt: in.GetStartsAt().AsTime(),
		SalesOpenAt: in.GetSalesOpenAt().AsTime(), SalesCloseAt: in.GetSalesCloseAt().AsTime(),
		Seating: event.Seating(in.GetSeating()), Currency: in.GetCurrency(), MaxPerUser: int(in.GetMaxPerUser()),
		HoldSeconds: in.HoldSeconds, SlotSeconds: in.SlotSeconds, Threshold: in.Threshold, TimeZone: in.TimeZone,
		ReturnWithin: in.ReturnWithin, MaxReturnsPerUser: in.MaxReturnsPerUser, SeriesID: in.SeriesId, MaxPerUserInSeries: in.MaxPerUserInSeries, CodesFrom: in.CodesFrom,
		StatementSuffix: in.StatementSuffix,
		Sections:        make([]event.Section, len(in.GetSections())),
	}
	for i, sec := range in.GetSections() {
		s.Sections[i] = event.Section{
			Name: sec.GetSection(), Price: sec.GetPrice(), Fee: sec.GetFee(), Capacity: sec.GetCapacity(),
			Rows: int(sec.GetRows()), SeatsPerRow: int(sec.GetSeatsPerRow()),
		}
	}
	if in.GetDoorsAt() != nil {
		s.DoorsAt = new(in.GetDoorsAt().AsTime())
	}
	if in.GetClosesAt() != nil {
		s.ClosesAt = new(in.GetClosesAt().AsTime())
	}
	if in.Expected != nil {
		s.Expected = new(rpc.ToExpected(in.Expected))
	}
	if in.Transferable != nil {
		s.Transferable = new(event.Transferable(in.GetTransferable()))
	}
	if in.ReturnsTo != nil {
		s.ReturnsTo = new(event.ReturnsTo(in.GetReturnsTo()))
	}
	s.CancellationFees, s.Presale = toCancellationFees(in.CancellationFees), toPresale(in.Presale)
	if in.RefundUntil == nil {
		return s, nil
	}
	s.UserRefunds = &event.UserRefunds{None: in.GetRefundUntil() == noRefunds}
	if s.UserRefunds.None {
		return s, nil
	}
	var err error
	if s.UserRefunds.Until, err = time.Parse(time.RFC3339, in.GetRefundUntil()); err != nil {
		return s, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "refundUntil", Message: "must be a time (RFC 3339) or none"})
	}
	return s, nil
}

// fromSpec converts a stored spec to its message. A PUT of this message changes nothing.
func fromSpec(s *event.Spec) *ticketv1.EventSpec {
	out := &ticketv1.EventSpec{
		Title: s.Title, Artist: s.Artist, Venue: s.Venue, StartsAt: timestamppb.New(s.StartsAt),
		SalesOpenAt: timestamppb.New(s.SalesOpenAt), SalesCloseAt: timestamppb.New(s.SalesCloseAt),
		Seating: string(s.Seating), Currency: s.Currency, MaxPerUser: int32(s.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: s.HoldSeconds, SlotSeconds: s.SlotSeconds, Threshold: s.Threshold, TimeZone: s.TimeZone,
		ReturnWithin: s.ReturnWithin, MaxReturnsPerUser: s.MaxReturnsPerUser, SeriesId: s.SeriesID, MaxPerUserInSeries: s.MaxPerUserInSeries, CodesFrom: s.CodesFrom,
		StatementSuffix: s.StatementSuffix,
		Sections:        make([]*ticketv1.SectionSpec, len(s.Sections)),
	}
	for i, sec := range s.Sections {
		spec := &ticketv1.SectionSpec{Section: sec.Name, Price: sec.Price, Fee: sec.Fee}
		if sec.Seating() == event.Assigned {
			spec.Rows, spec.SeatsPerRow = new(int32(sec.Rows)), new(int32(sec.SeatsPerRow)) //nolint:gosec // ≤ 1000
		} else {
			spec.Capacity = new(sec.Capacity)
		}
		out.Sections[i] = spec
	}
	if s.DoorsAt != nil {
		out.DoorsAt = timestamppb.New(*s.DoorsAt)
	}
	if s.ClosesAt != nil {
		out.ClosesAt = timestamppb.New(*s.ClosesAt)
	}
	out.Transferable, out.ReturnsTo = new(string(*s.Transferable)), new(string(*s.ReturnsTo))
	if out.Expected = rpc.FromExpected(*s.Expected); out.Expected == nil {
		out.Expected = &commonv1.Expected{}
	}
	out.CancellationFees, out.Presale = fromCancellationFees(*s.CancellationFees), fromPresale(s.Presale)
	switch r := s.UserRefunds; {
	case r == nil:
	case r.None:
		out.RefundUntil = new(noRefunds)
	default:
		out.RefundUntil = new(r.Until.Format(time.RFC3339Nano))
	}
	return out
}

// fromSnapshot returns the event as visitors see it.
func fromSnapshot(s *event.Snapshot) *ticketv1.Event {
	e := &s.Event
	closing := e.Closing()
	out := &ticketv1.Event{
		EventId: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: timestamppb.New(e.StartsAt),
		SalesOpenAt: timestamppb.New(e.SalesOpenAt), SalesCloseAt: timestamppb.New(e.SalesCloseAt), Seating: string(e.Seating),
		Sections: fromSections(s), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		TimeZone: e.TimeZone, Status: string(s.Status()), ClosesAt: timestamppb.New(closing.ClosesAt),
		PostponedFrom: timestamp(e.PostponedFrom), RefundsAt: timestamp(e.RefundsAt), Transferable: string(*e.Transferable),
	}
	if e.DoorsAt != nil {
		out.DoorsAt = timestamppb.New(*e.DoorsAt)
	}
	if len(*e.CancellationFees) > 0 {
		out.CancellationFees = fromCancellationFees(*e.CancellationFees)
	}
	if e.Presale.Exists() {
		out.Presale = shownPresale(e.Presale)
	}
	if *e.SeriesID != "" {
		out.SeriesId, out.MaxPerUserInSeries = e.SeriesID, e.MaxPerUserInSeries
	}
	if closing.UserRefunds {
		out.RefundUntil = timestamppb.New(closing.RefundUntil)
	}
	feesUntil := e.FeesUntil
	if feesUntil.After(closing.ClosesAt) {
		feesUntil = closing.ClosesAt
	}
	if feesUntil.After(s.At) && e.State.TakesPlace() {
		out.FullRefundUntil = timestamppb.New(feesUntil)
	}
	return out
}

func toCancellationFees(in *ticketv1.CancellationFees) *event.CancellationFees {
	if in == nil {
		return nil
	}
	fees := make(event.CancellationFees, len(in.GetSteps()))
	for i, step := range in.GetSteps() {
		fees[i] = event.CancellationFee{Until: step.GetUntil().AsTime(), Percent: step.GetPercent()}
	}
	return &fees
}

func fromCancellationFees(fees event.CancellationFees) *ticketv1.CancellationFees {
	out := &ticketv1.CancellationFees{Steps: make([]*ticketv1.CancellationFee, len(fees))}
	for i, fee := range fees {
		out.Steps[i] = &ticketv1.CancellationFee{Until: timestamppb.New(fee.Until), Percent: fee.Percent}
	}
	return out
}
