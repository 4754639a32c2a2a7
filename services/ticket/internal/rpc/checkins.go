package rpc

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/checkin"
)

// CheckIns serves the RPCs with which doors check tickets in.
type CheckIns struct {
	ticketv1.UnimplementedCheckInServiceServer

	doors *checkin.Service
}

// NewCheckIns makes a server that calls s for check-ins.
func NewCheckIns(s *checkin.Service) *CheckIns { return &CheckIns{doors: s} }

func (s *CheckIns) CheckIn(ctx context.Context, req *ticketv1.CheckInRequest) (*ticketv1.CheckedIn, error) {
	user, err := rpc.RequireRole(req, roleStaff, roleAdmin)
	if err != nil {
		return nil, err
	}
	o, err := s.doors.CheckIn(ctx, checkin.Batch{EventID: req.GetEventId(), Device: req.GetDeviceId(), UserID: user}, req.GetCode())
	if o != nil {
		checkInsTotal.WithLabelValues(doorOnline, string(o.Scan.Result)).Inc()
	}
	if err != nil {
		return nil, err
	}
	return fromOutcome(o), nil
}

func (s *CheckIns) UndoCheckIn(ctx context.Context, req *ticketv1.UndoCheckInRequest) (*ticketv1.CheckedIn, error) {
	if _, err := rpc.RequireRole(req, roleStaff, roleAdmin); err != nil {
		return nil, err
	}
	id, err := parseID(req.GetScanId())
	if err != nil {
		return nil, err
	}
	o, err := s.doors.Undo(ctx, req.GetEventId(), id)
	if err != nil {
		return nil, err
	}
	return fromOutcome(o), nil
}

func fromOutcome(o *checkin.Outcome) *ticketv1.CheckedIn {
	out := &ticketv1.CheckedIn{
		ScanId: o.Scan.ID.String(), TicketId: o.Ticket.ID.String(), Section: o.Ticket.Section, At: timestamp(o.Scan.At),
		Disputed: o.Ticket.Disputed,
	}
	if o.Ticket.Seat != nil {
		out.Seat = fromSeat(o.Ticket.Seat)
	}
	if o.Ticket.Name != "" {
		out.Name = &o.Ticket.Name
	}
	return out
}

func (s *CheckIns) GetDoorCounts(ctx context.Context, req *ticketv1.GetDoorCountsRequest) (*ticketv1.DoorCounts, error) {
	if _, err := rpc.RequireRole(req, roleStaff, roleAdmin); err != nil {
		return nil, err
	}
	c, err := s.doors.Counts(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &ticketv1.DoorCounts{Sold: c.Sold, CheckedIn: c.CheckedIn, Conflicts: c.Conflicts}, nil
}

func (s *CheckIns) GetDoorList(ctx context.Context, req *ticketv1.GetDoorListRequest) (*ticketv1.DoorList, error) {
	if _, err := rpc.RequireRole(req, roleStaff, roleAdmin); err != nil {
		return nil, err
	}
	from, err := decodePosition(req.GetCursor())
	if err != nil {
		return nil, err
	}
	p, err := s.doors.List(ctx, req.GetEventId(), from, int(req.GetLimit()))
	if err != nil {
		return nil, err
	}
	return &ticketv1.DoorList{
		Page: p.Signed, Epoch: int32(p.Epoch), Time: timestamp(p.Time), Count: int32(p.Count), NextCursor: encodePosition(p.Next), //nolint:gosec // int32s
		Transferring: p.Transferring,
	}, nil
}

func (s *CheckIns) UploadScans(ctx context.Context, req *ticketv1.UploadScansRequest) (*ticketv1.UploadedScans, error) {
	user, err := rpc.RequireRole(req, roleStaff, roleAdmin)
	if err != nil {
		return nil, err
	}
	scans := make([]checkin.Scanned, len(req.GetScans()))
	for i, scan := range req.GetScans() {
		id, err := parseID(scan.GetScanId())
		if err != nil {
			return nil, err
		}
		scans[i] = checkin.Scanned{ScanID: id, Code: scan.GetCode(), At: scan.GetAt().AsTime()}
	}
	door := checkin.Batch{EventID: req.GetEventId(), Device: req.GetDeviceId(), UserID: user, Epoch: int(req.GetEpoch())}
	outcomes, err := s.doors.Upload(ctx, door, scans)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.UploadedScans{Results: make([]*ticketv1.UploadedScan, len(outcomes))}
	for i, o := range outcomes {
		checkInsTotal.WithLabelValues(doorOffline, string(o.Scan.Result)).Inc()
		res.Results[i] = &ticketv1.UploadedScan{ScanId: o.Scan.ID.String(), Result: string(o.Scan.Result)}
	}
	return res, nil
}

func (s *CheckIns) ListConflicts(ctx context.Context, req *ticketv1.ListConflictsRequest) (*ticketv1.ListConflictsResponse, error) {
	if _, err := rpc.RequireRole(req, roleStaff, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseNumber(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.doors.Conflicts(ctx, req.GetEventId(), pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListConflictsResponse{Items: make([]*ticketv1.Conflict, len(list)), NextCursor: cursor.Number(next)}
	for i, c := range list {
		res.Items[i] = &ticketv1.Conflict{
			ScanId: c.ID.String(), Result: string(c.Result), DeviceId: c.Device, UserId: c.UserID, At: timestamp(c.At), RecordedAt: timestamp(c.RecordedAt),
		}
		if c.TicketID != uuid.Nil {
			res.Items[i].TicketId = c.TicketID.String()
		}
	}
	return res, nil
}

// positionLength is the length of an encoded position: epoch, time, page, ticket, Unclaimed.
const positionLength = 4 + 8 + 4 + 16 + 1

func encodePosition(p *checkin.Position) string {
	if p == nil {
		return ""
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(p.Epoch))         //nolint:gosec // counts from 1
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time.UnixMilli())) //nolint:gosec // after 1970
	b = binary.BigEndian.AppendUint32(b, uint32(p.Page))             //nolint:gosec // counts from 0
	b = append(append(b, p.TicketID[:]...), 0)
	if p.Unclaimed {
		b[positionLength-1] = 1
	}
	return cursor.Bytes(b)
}

func decodePosition(text string) (*checkin.Position, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the first page
	}
	b, err := cursor.ParseBytes(text)
	if err != nil || len(b) != positionLength {
		return nil, errs.ErrInvalidCursor
	}
	return &checkin.Position{
		Epoch: int(binary.BigEndian.Uint32(b)), Time: time.UnixMilli(int64(binary.BigEndian.Uint64(b[4:]))).UTC(), //nolint:gosec // made above
		Page: int(binary.BigEndian.Uint32(b[12:])), TicketID: uuid.UUID(b[16 : positionLength-1]), Unclaimed: b[positionLength-1] == 1,
	}, nil
}
