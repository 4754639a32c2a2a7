package entitlement

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Errors of codes and uploads.
var (
	ErrCodeInvalid    = errs.ErrCodeInvalid
	ErrTooManyCodes   = errs.ErrTooManyCodes
	ErrBatchNotFound  = errs.ErrBatchNotFound
	ErrUploadNotFound = errs.ErrUploadNotFound
)

// MaxWrongCodes is how many wrong codes a user may try within an hour of the clock.
const MaxWrongCodes = 10

// Store keeps codes and lists.
type Store interface {
	// Find returns what is known of the users, by their ids.
	Find(ctx context.Context, eventID string, lists, codeLists []string, users []User) (map[string]Found, error)

	// Used returns how many places of an event, and of all events of its series (empty: none), the user
	// holds and owns.
	Used(ctx context.Context, eventID, seriesID, userID string) (Used, error)

	// MakeCodes stores a batch with the hashes of its codes; event.ErrNotFound.
	MakeCodes(ctx context.Context, b Batch, hashes [][]byte) (Batch, error)
	// Batches returns the batches of an event, newest first; event.ErrNotFound.
	Batches(ctx context.Context, eventID string) ([]Batch, error)
	// Withdraw makes all codes of a batch void, or returns ErrBatchNotFound. It may be repeated.
	Withdraw(ctx context.Context, eventID string, id uuid.UUID) (Batch, error)
	// UseCode lets the user have the entitlement of a code. ErrCodeInvalid, or ErrTooManyCodes after
	// MaxWrongCodes.
	UseCode(ctx context.Context, eventID, userID string, hash []byte) error

	// BeginUpload begins a list; event.ErrNotFound.
	BeginUpload(ctx context.Context, eventID, list string) (uuid.UUID, error)
	// AddToUpload adds users by id and by e-mail address to an upload that was not finished, or returns
	// ErrUploadNotFound. It may be repeated.
	AddToUpload(ctx context.Context, id uuid.UUID, userIDs, emails []string) error
	// FinishUpload makes the upload the event's list, or returns ErrUploadNotFound. It may be repeated.
	FinishUpload(ctx context.Context, id uuid.UUID) (UploadedList, error)
	// Lists returns the lists of an event; event.ErrNotFound.
	Lists(ctx context.Context, eventID string) ([]UploadedList, error)
}

// Used counts the places that a user holds and owns at a time.
type Used struct {
	InEvent, InSeries int64
	At                time.Time
}

// Batch is a number of codes that were made together.
type Batch struct {
	ID                uuid.UUID
	EventID, CodeList string
	// Count is the number of codes, Uses how many accounts may use each, Used how often all were used.
	Count, Uses int32
	Used        int64
	CreatedAt   time.Time
	// WithdrawnAt is zero unless its codes are void.
	WithdrawnAt time.Time
}

// UploadedList is a list of users.
type UploadedList struct {
	Name string
	// UserIDs and Emails count the users that it names by id, and by e-mail address.
	UserIDs, Emails int64
	UpdatedAt       time.Time
}
