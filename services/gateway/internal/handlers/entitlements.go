package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/csvfile"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// UploadTimeout is the time-out of the upload of a list of users.
	UploadTimeout = 10 * time.Minute
	// uploadPart is how many users one call of the ticket service contains.
	uploadPart = 5_000
	// maxUploadErrors is how many invalid lines of a file the error lists.
	maxUploadErrors = 20
)

// Columns of a list of users.
const (
	columnUserID = "userId"
	columnEmail  = "email"
)

// EntitlementHandlers receives lists of users who may buy in a presale.
type EntitlementHandlers struct {
	ticket ticketv1.EntitlementAdminServiceClient
}

// NewEntitlementHandlers makes handlers that call the ticket service.
func NewEntitlementHandlers(ticket ticketv1.EntitlementAdminServiceClient) *EntitlementHandlers {
	return &EntitlementHandlers{ticket: ticket}
}

// PutList replaces a list by the users of a CSV file, as a spreadsheet writes it. It reads the file and forwards it
// part by part. A file that has an invalid line or breaks off replaces nothing.
func (h *EntitlementHandlers) PutList(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	list := q.Param("list")
	if !ids.ValidEventID(list) {
		return errs.ErrInvalidID.WithFields(errs.Field{Path: "list", Message: "must be 1–64 of [A-Za-z0-9_-]"})
	}
	file, err := openUserFile(q.Upload)
	if err != nil {
		return err
	}
	ctx := caller.With(r.Context(), q.Caller())
	began, err := h.ticket.BeginUpload(ctx, &ticketv1.BeginUploadRequest{EventId: q.Param("event_id"), List: list})
	if err != nil {
		return err
	}
	if err := h.sendUsers(ctx, file, began.GetUploadId()); err != nil {
		return err
	}
	done, err := h.ticket.FinishUpload(ctx, &ticketv1.FinishUploadRequest{UploadId: began.GetUploadId(), Sha256: q.Upload.SHA256()})
	if err != nil {
		return err
	}
	q.Entries = &eventsv1.EntryCounts{Total: done.GetUserIds() + done.GetEmails(), Added: done.GetAdded(), Removed: done.GetRemoved()}
	return WriteMessage(w, http.StatusOK, done)
}

// GetVersion responds with the users of a version of a list as CSV, as PutList reads it. It reads
// each part in a separate call of the ticket service, so that a slow client does not keep a call open.
func (h *EntitlementHandlers) GetVersion(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in := &ticketv1.ReadEntitlementVersionRequest{EventId: q.Param("event_id"), List: q.Param("list"), Version: q.Param("version_id")}
	ctx := caller.With(r.Context(), q.Caller())
	part, err := h.ticket.ReadEntitlementVersion(ctx, in)
	if err != nil {
		return err
	}
	f := newCSVFile(w, "list-"+in.GetVersion())
	f.line([]string{columnUserID, columnEmail})
	for len(part.GetUserIds())+len(part.GetEmails()) > 0 {
		for _, user := range part.GetUserIds() {
			f.line([]string{user, ""})
			in.After = user
		}
		for _, email := range part.GetEmails() {
			f.line([]string{"", email})
			in.After, in.AfterEmail = email, true
		}
		if f.flush() != nil {
			break // the client has disconnected
		}
		if part, err = h.ticket.ReadEntitlementVersion(ctx, in); err != nil {
			panic(http.ErrAbortHandler) // otherwise the client would take a part of the list for all of it
		}
	}
	return f.end()
}

func (h *EntitlementHandlers) sendUsers(ctx context.Context, file *userFile, uploadID string) error {
	for {
		part := &ticketv1.AddToUploadRequest{UploadId: uploadID}
		err := file.read(part)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(part.GetUserIds())+len(part.GetEmails()) > 0 {
			if _, err := h.ticket.AddToUpload(ctx, part); err != nil {
				return err
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the end of the file
		}
	}
}

// userFile is a CSV file of users. Its header has a column userId, a column email, or both. Other
// columns are ignored.
type userFile struct {
	records       *csvfile.Reader
	userID, email int // -1: the file has no such column
	bad           []errs.Field
}

func openUserFile(r io.Reader) (*userFile, error) {
	records, err := csvfile.NewReader(r)
	if invalid := (*csvfile.Error)(nil); errors.As(err, &invalid) {
		return nil, errs.ErrInvalidRequest.WithFields(invalidLine(invalid.Line, invalid.Message))
	}
	if err != nil {
		return nil, edge.BodyError(err)
	}
	column := func(name string) int {
		return slices.IndexFunc(records.Header(), func(cell string) bool { return strings.EqualFold(cell, name) })
	}
	f := &userFile{records: records, userID: column(columnUserID), email: column(columnEmail)}
	if f.userID < 0 && f.email < 0 {
		return nil, errs.ErrInvalidRequest.WithFields(invalidLine(records.Line(), "must name a column userId or email"))
	}
	return f, nil
}

func invalidLine(line int, message string) errs.Field {
	return errs.Field{Path: fmt.Sprintf("line %d", line), Message: message}
}

// read adds users to a part until it is full, or returns io.EOF at the end of the file. It returns
// an error with the invalid lines at the end of the file, or after maxUploadErrors of them.
func (f *userFile) read(part *ticketv1.AddToUploadRequest) error {
	for len(f.bad) < maxUploadErrors {
		if max(len(part.GetUserIds()), len(part.GetEmails())) >= uploadPart {
			return nil
		}
		record, err := f.records.Read()
		var invalid *csvfile.Error
		switch {
		case errors.As(err, &invalid):
			f.bad = append(f.bad, invalidLine(invalid.Line, invalid.Message))
		case errors.Is(err, io.EOF) && len(f.bad) == 0:
			return io.EOF
		case errors.Is(err, io.EOF):
			return errs.ErrInvalidRequest.WithFields(f.bad...)
		case err != nil:
			return edge.BodyError(err)
		default:
			f.add(part, cell(record, f.userID), strings.ToLower(cell(record, f.email)))
		}
	}
	return errs.ErrInvalidRequest.WithFields(f.bad...)
}

// notInEmail has what no address has, and U+0000, which PostgreSQL cannot store.
const notInEmail = " \t\r\n\x00"

func (f *userFile) add(part *ticketv1.AddToUploadRequest, userID, email string) {
	problem := ""
	switch at := strings.IndexByte(email, '@'); {
	case userID == "" && email == "":
		problem = "has no user"
	case userID != "" && !ids.ValidUser(userID):
		problem = "has an invalid user id"
	case email != "" && (at < 1 || at == len(email)-1 || len(email) > ids.MaxEmail || strings.ContainsAny(email, notInEmail)):
		problem = "has an invalid e-mail address"
	}
	if problem != "" {
		f.bad = append(f.bad, invalidLine(f.records.Line(), problem))
		return
	}
	if userID != "" {
		part.UserIds = append(part.UserIds, strings.Clone(userID))
	}
	if email != "" {
		part.Emails = append(part.Emails, strings.Clone(email))
	}
}

// cell returns a cell of a record; it is empty if the file has no such column.
func cell(record []string, column int) string {
	if column < 0 {
		return ""
	}
	return record[column]
}
