// Package rpc serves the calls of the ingest service and of operators over gRPC.
package rpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

const (
	admin        = "admin"
	defaultLimit = 20
	maxRedrives  = 100  // the most requests that one call redrives
	maxPages     = 20   // the most pages of dead letters that one call reads
	maxBody      = 4096 // the most bytes of a message that operators see
)

// Store reads dead letters, and redrives failed requests.
type Store interface {
	// DeadLetters reads a page after a sort key, latest first; OldestDeadLetters does so oldest first.
	DeadLetters(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	OldestDeadLetters(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	MarkRedriven(ctx context.Context, l promotion.DeadLetter) error
	Redrive(ctx context.Context, id string) (promotion.Request, error)
	// RedriveAnnouncement publishes the announcements of a dead letter, and marks it. Like Redrive, it
	// fails with promotion.ErrNotRedrivable.
	RedriveAnnouncement(ctx context.Context, l promotion.DeadLetter) error
}

// Sender puts a request in the queue.
type Sender interface {
	Send(ctx context.Context, r promotion.Request) error
}

// Drawer changes draws as operators request it.
type Drawer interface {
	SubmitBeacon(ctx context.Context, event, value, signature string) (promotion.Draw, error)
	Void(ctx context.Context, event string) (promotion.Draw, error)
}

// Admin serves the operators' RPCs (WorkerAdminService).
type Admin struct {
	workerv1.UnimplementedWorkerAdminServiceServer

	store      Store
	sender     Sender
	drawer     Drawer
	admissions Admissions
	log        *slog.Logger
}

// NewAdmin returns the server of the operators' RPCs.
func NewAdmin(store Store, sender Sender, drawer Drawer, log *slog.Logger) *Admin {
	return &Admin{store: store, sender: sender, drawer: drawer, log: log}
}

// WithAdmissions makes s serve the dead letters of admissions too, and returns s.
func (s *Admin) WithAdmissions(a Admissions) *Admin {
	s.admissions = a
	return s
}

func (s *Admin) ListDeadLetters(ctx context.Context, in *workerv1.ListDeadLettersRequest) (*workerv1.ListDeadLettersResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	after, err := cursor.ParseText(in.GetCursor(), "")
	if err != nil {
		return nil, err
	}
	page, next, err := s.store.DeadLetters(ctx, after, cmp.Or(int(in.GetLimit()), defaultLimit))
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListDeadLettersResponse{NextCursor: cursor.Text(next)}
	for _, l := range page {
		out.Items = append(out.Items, &workerv1.DeadLetter{
			RequestId: l.RequestID, EventId: l.EventID, Body: l.Body, ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, At: l.At,
			RedrivenAt: rpc.Optional(l.RedrivenAt),
		})
	}
	return out, nil
}

func (s *Admin) RedriveRequests(ctx context.Context, in *workerv1.RedriveRequestsRequest) (*workerv1.RedriveRequestsResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	out := &workerv1.RedriveRequestsResponse{}
	if len(in.GetIds()) > 0 {
		return out, s.redriveIDs(ctx, in.GetIds(), out)
	}
	after, err := cursor.ParseText(in.GetCursor(), "")
	if err != nil {
		return nil, err
	}
	after, err = s.redriveOldest(ctx, after, out)
	out.NextCursor, out.More = cursor.Text(after), after != ""
	return out, err
}

// redriveOldest redrives the requests and announcements of dead letters after a sort key that were not redriven yet,
// the oldest first. It returns the sort key of the last dead letter that it has read, else "".
func (s *Admin) redriveOldest(ctx context.Context, after string, out *workerv1.RedriveRequestsResponse) (next string, err error) {
	tried := map[string]bool{}
	for range maxPages {
		page, next, err := s.store.OldestDeadLetters(ctx, after, maxRedrives)
		if err != nil {
			return "", err
		}
		for _, l := range page {
			if len(out.GetRedriven()) == maxRedrives {
				return after, nil
			}
			after = l.ID
			switch {
			case l.RedrivenAt != 0:
			case l.ErrorCode == promotion.UnreadableAnnouncement:
				err = s.redriveAnnouncement(ctx, l, out)
			case l.RequestID != "" && !tried[l.RequestID]:
				tried[l.RequestID] = true
				err = s.redrive(ctx, l.RequestID, &l, out)
			}
			if err != nil {
				return "", err
			}
		}
		if after = next; after == "" {
			break
		}
	}
	return after, nil
}

func (s *Admin) redriveAnnouncement(ctx context.Context, l promotion.DeadLetter, out *workerv1.RedriveRequestsResponse) error {
	switch err := s.store.RedriveAnnouncement(ctx, l); {
	case errors.Is(err, promotion.ErrNotRedrivable):
		out.Refused = append(out.Refused, l.ID)
		return nil
	case err != nil:
		return err
	}
	out.Redriven = append(out.Redriven, l.ID)
	return nil
}

// redriveIDs redrives requests in the order of their ids, which is that of their acceptance.
func (s *Admin) redriveIDs(ctx context.Context, ids []string, out *workerv1.RedriveRequestsResponse) error {
	letters := map[string]*promotion.DeadLetter{} // the latest dead letter of each request, or nil
	for _, id := range ids {
		letters[id] = nil
	}
	after, found := "", 0
	for range maxPages {
		page, next, err := s.store.DeadLetters(ctx, after, maxRedrives)
		if err != nil {
			return err
		}
		for _, l := range page {
			if known, wanted := letters[l.RequestID]; wanted && known == nil && l.RedrivenAt == 0 {
				letters[l.RequestID] = &l
				found++
			}
		}
		if after = next; after == "" || found == len(letters) {
			break
		}
	}
	for _, id := range slices.Sorted(maps.Keys(letters)) {
		if err := s.redrive(ctx, id, letters[id], out); err != nil {
			return err
		}
	}
	return nil
}

// redrive restarts a failed request, sends it to the queue, and marks its dead letter l (nil: none)
// as redriven. If sending fails, the ingest service finds the request's marker and sends it.
func (s *Admin) redrive(ctx context.Context, id string, l *promotion.DeadLetter, out *workerv1.RedriveRequestsResponse) error {
	r, err := s.store.Redrive(ctx, id)
	if errors.Is(err, promotion.ErrNotRedrivable) {
		out.Refused = append(out.Refused, id)
		return nil
	}
	if err != nil {
		return err
	}
	out.Redriven = append(out.Redriven, id)
	if err := s.sender.Send(ctx, r); err != nil {
		s.log.WarnContext(ctx, "redriven request not sent yet", "request_id", id, "error", err)
	}
	if l == nil {
		return nil
	}
	return s.store.MarkRedriven(ctx, *l)
}
