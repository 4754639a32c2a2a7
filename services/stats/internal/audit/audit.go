// Package audit defines the log of the acts of operators (calls that change or read protected
// data), and reads it in pages.
package audit

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/ids"
)

// Act is a call of an operator that changes something, or reads data about users, as the gateway
// recorded it.
type Act struct {
	ID                  uuid.UUID
	At                  time.Time
	UserID, Address     string // the operator, and the client's address
	Method, Route, Path string
	EventID, RequestID  string
	Body, BodySHA256    string
	// Outcome is nil while it is not known. Without a UserID there is only the outcome: the act is not
	// stored, or not yet, and At is the outcome's.
	Outcome *Outcome
}

// Outcome is the response that the operator got.
type Outcome struct {
	Status int
	// Code is the code of the error, "" after success.
	Code string
	At   time.Time
	// Entries is what an upload has changed; nil for all other acts, and if it was refused.
	Entries *EntryCounts
}

// EntryCounts says how many entries an uploaded list has, how many of them the list before it lacked
// (Added), and how many entries of that one it lacks (Removed).
type EntryCounts struct{ Total, Added, Removed int64 }

// Ended is the outcome of an act as a record of its own tells it.
type Ended struct {
	ActID uuid.UUID
	Outcome

	// EventID and BodySHA256 count only if the act itself has none: those of some acts are not known
	// before their end.
	EventID, BodySHA256 string
}

// Filter selects acts. A field that is zero excludes none.
type Filter struct {
	EventID, UserID string
	From, To        time.Time // To is exclusive
	Before          Position  // position of the previous page's last act
	Limit           int
}

// Position is the position of an act in the log, which is sorted by time, then by id.
type Position struct {
	At time.Time
	ID uuid.UUID
}

// Cursor returns the position as text, with which a client asks for the next page.
func (p Position) Cursor() string { return cursor.Moment(p.At, p.ID.String()) }

// ParseCursor parses the text of Cursor, or fails with errs.ErrInvalidCursor. "" is Position{}.
func ParseCursor(text string) (Position, error) {
	at, id, err := cursor.ParseMoment(text, ids.ValidUUID)
	if err != nil || text == "" {
		return Position{}, err
	}
	return Position{At: at, ID: uuid.MustParse(id)}, nil
}

// Latest is after the time of every act.
var Latest = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// Store keeps acts.
type Store interface {
	// Keep stores acts without outcomes, and outcomes, which may come before their acts. Of an act, and
	// of its outcome, the first that is stored stays. It returns how many of the outcomes say something
	// else than is stored then.
	Keep(ctx context.Context, acts []Act, ended []Ended) (other int64, err error)
	// List returns at most f.Limit acts, newest first.
	List(ctx context.Context, f Filter) ([]Act, error)
}

// ReadPage returns one page of acts, newest first, and the cursor of the next page, "" at the end.
func ReadPage(ctx context.Context, s Store, f Filter) (acts []Act, next string, err error) {
	limit := cmp.Or(f.Limit, DefaultLimit)
	f.Limit = limit + 1
	if acts, err = s.List(ctx, f); err != nil || len(acts) <= limit {
		return acts, "", err
	}
	last := acts[limit-1]
	return acts[:limit], Position{At: last.At, ID: last.ID}.Cursor(), nil
}

// DefaultLimit is the length of a page unless the caller asks for another.
const DefaultLimit = 20
