package entitlement

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

// Errors of codes and uploads.
var (
	ErrCodeInvalid    = errs.ErrCodeInvalid
	ErrTooManyCodes   = errs.ErrTooManyCodes
	ErrBatchNotFound  = errs.ErrBatchNotFound
	ErrUploadNotFound = errs.ErrUploadNotFound
)

// MaxWrongCodes is how many wrong codes a user may try in each hour of the clock.
const MaxWrongCodes = 10

// Store keeps the codes and the uploaded lists of users.
type Store interface {
	// Find returns, by user id, who is on one of the lists or has used a code of one of the codeLists.
	Find(ctx context.Context, eventID string, lists, codeLists []string, users []User) (map[string]Found, error)

	// Record returns what limits the user's holds at an event and in its series (seriesID empty: it has
	// none), and the time at which it was read.
	Record(ctx context.Context, eventID, seriesID, userID string) (r event.Record, at time.Time, err error)

	// MakeCodes stores a batch with the hashes of its codes, or returns event.ErrNotFound.
	MakeCodes(ctx context.Context, b Batch, hashes [][]byte) (Batch, error)
	// Batches returns the batches of an event, newest first, or event.ErrNotFound.
	Batches(ctx context.Context, eventID string) ([]Batch, error)
	// Withdraw makes all codes of a batch void, or returns ErrBatchNotFound. It may be repeated.
	Withdraw(ctx context.Context, eventID string, id uuid.UUID) (Batch, error)
	// UseCode gives the user the entitlement of a code. Errors: ErrCodeInvalid; ErrTooManyCodes after
	// MaxWrongCodes.
	UseCode(ctx context.Context, eventID, userID string, hash []byte) error

	// BeginUpload begins the upload of a list by an operator, or returns event.ErrNotFound.
	BeginUpload(ctx context.Context, eventID, list, operator string) (uuid.UUID, error)
	// AddToUpload adds users by id and by e-mail address to an unfinished upload, or returns
	// ErrUploadNotFound. It may be repeated.
	AddToUpload(ctx context.Context, id uuid.UUID, userIDs, emails []string) error
	// FinishUpload makes the upload of a file with the digest sha256 the event's list; else
	// ErrUploadNotFound. It may be repeated.
	FinishUpload(ctx context.Context, id uuid.UUID, sha256 string) (UploadedList, error)
	// Lists returns the lists of an event, or event.ErrNotFound.
	Lists(ctx context.Context, eventID string) ([]UploadedList, error)
	// Versions returns at most limit versions of a list that began before the version before, newest
	// first, or event.ErrNotFound.
	Versions(ctx context.Context, eventID, list string, before uuid.UUID, limit int) ([]UploadedList, error)
	// Entries returns the users of a version after one of them, at most MaxEntries, sorted, or
	// ErrUploadNotFound.
	Entries(ctx context.Context, eventID, list string, version uuid.UUID, after Entry) ([]Entry, error)
}

// MaxEntries is the most users of a list that are read at once.
const MaxEntries = 5000

// Entry is a user on a list, by id or by e-mail address. Ids are sorted before addresses.
type Entry struct {
	IsEmail bool
	Value   string
}

// Batch is a number of codes that were made together.
type Batch struct {
	ID                uuid.UUID
	EventID, CodeList string
	// Count is the number of codes. Uses is how many users may use each code. Used counts all uses.
	Count, Uses int32
	Used        int64
	CreatedAt   time.Time
	// WithdrawnAt is when the codes became void; zero: they are valid.
	WithdrawnAt time.Time
}

// UploadedList is a list of users that an operator has uploaded for a presale.
type UploadedList struct {
	Version uuid.UUID
	Name    string
	// UserIDs counts the users who are on it by their id, Emails those by their e-mail address.
	UserIDs, Emails int64
	// Added counts the entries that the version before lacked, Removed those of it that are missing.
	Added, Removed int64
	// SHA256 is the hex digest of the uploaded file, UploadedBy the operator.
	SHA256, UploadedBy string
	// UpdatedAt is when it became the event's list, ReplacedAt when it ceased to be; zero: it is.
	UpdatedAt, ReplacedAt time.Time
}
