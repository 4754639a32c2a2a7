package seats

import (
	"math/bits"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/sse"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// frameSince returns the frame with the changes since an earlier state. It returns nil if a frame
// cannot express the changes, or if a frame with all seats is shorter.
func (c *seatChange) frameSince(old *State) *sse.Frame {
	m := &gatewayv1.SeatChanges{Seq: c.seq}
	if !compareSections(m, old.Seats.GetSections(), c.Seats.GetSections()) || !compareSeats(m, old.Seats, c.Seats) {
		return nil
	}
	body, err := wire.Marshal(m)
	if err != nil || len(body) >= len(c.JSON) {
		return nil
	}
	return sse.Event("", c.Version, body)
}

// compareSections adds to m the sections whose number of free places has changed. It reports
// whether all else in the sections is the same.
func compareSections(m *gatewayv1.SeatChanges, old, now []*ticketv1.Section) bool {
	if len(old) != len(now) {
		return false
	}
	for i, s := range now {
		o := old[i]
		if o.GetFree() != s.GetFree() {
			m.Sections = append(m.Sections, &gatewayv1.FreePlaces{Section: s.GetSection(), Free: s.GetFree()})
			o = proto.CloneOf(o)
			o.Free = s.GetFree()
		}
		if !proto.Equal(o, s) {
			return false
		}
	}
	return true
}

// compareSeats adds to m the seats that were taken or freed. It returns false if the two states
// belong to different seat maps.
func compareSeats(m *gatewayv1.SeatChanges, old, now *ticketv1.Availability) bool {
	before, after := old.GetBitmap(), now.GetBitmap()
	if old.GetSeats() != now.GetSeats() || len(before) != len(after) {
		return false
	}
	for i := range after {
		for differ := before[i] ^ after[i]; differ != 0; {
			bit := bits.LeadingZeros8(differ)
			differ &^= 0x80 >> bit
			seat := int32(i*8 + bit) //nolint:gosec // a map has at most 100,000 seats
			if after[i]&(0x80>>bit) == 0 {
				m.Taken = append(m.Taken, seat)
			} else {
				m.Freed = append(m.Freed, seat)
			}
		}
	}
	return true
}
