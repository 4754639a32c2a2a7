// Package errs defines the platform's errors: the kind of failure, the stable code that clients
// switch on, the public sentence of that code, and a cause for the log only. Errors convert to gRPC
// statuses and back without loss, so that a reason given by one service reaches the browser
// unchanged.
package errs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Kind says what a caller can do about an error. Services send it to each other in
// commonv1.Problem.kind.
type Kind string

// The kinds, each with the HTTP status that the gateway answers with.
const (
	// Invalid (400): the request can never succeed as it is.
	Invalid Kind = "invalid"
	// Unauthenticated (401): the caller is unknown.
	Unauthenticated Kind = "unauthenticated"
	// Forbidden (403): the caller is known and not allowed.
	Forbidden Kind = "forbidden"
	// NotFound (404): the object does not exist, or this caller may not see it.
	NotFound Kind = "not_found"
	// Conflict (409): the current state forbids the request, which may succeed later.
	Conflict Kind = "conflict"
	// Stale (412): the data that the request is based on has changed; read it again.
	Stale Kind = "stale"
	// Unprocessable (422): well-formed, but contradicts an earlier request of the same caller.
	Unprocessable Kind = "unprocessable"
	// Exhausted (429): too many requests; RetryAfter says when to retry.
	Exhausted Kind = "exhausted"
	// Canceled (499): the caller has cancelled the request.
	Canceled Kind = "canceled"
	// Internal (500): a fault of the platform.
	Internal Kind = "internal"
	// Unavailable (503): a dependency does not answer; the caller should retry.
	Unavailable Kind = "unavailable"
	// Deadline (504): no answer in time; whether the request took effect is unknown.
	Deadline Kind = "deadline"
)

// CausedByClient reports whether the caller of the API caused the error. Such errors are logged at
// level warn, all others at level error.
func (k Kind) CausedByClient() bool { return k != Internal && k != Unavailable && k != Deadline }

func (k Kind) HTTPStatus() int { return k.statusRow().httpStatus }

// Field contains the path of a wrong value in a request, and says why it is wrong.
type Field struct {
	Path    string `json:"path"`    // as the client wrote it: "sections[2].price"
	Message string `json:"message"` // part of an English sentence: "must be at least 1"
}

// Error is a failure with a stable code. An Error is never changed, so that goroutines may share
// it: its methods, such as With and Wrap, return changed copies.
type Error struct {
	Kind Kind
	// Reason is the stable code, UPPER_SNAKE; the field `code` of the API's problem document.
	Reason string
	// Message is the code's fixed English sentence; public.
	Message string
	// Metadata is public detail for programs, such as seatIds.
	Metadata map[string]string
	// Fields says which values of an Invalid request are wrong.
	Fields []Field
	// RetryAfter is the time after which a retry makes sense; 0: unknown.
	RetryAfter time.Duration

	cause error
}

// New makes an error without details. Codes that clients see are declared in the catalogue
// (catalogue.go) only.
func New(kind Kind, reason, message string) *Error {
	return &Error{Kind: kind, Reason: reason, Message: message}
}

// Error returns the text for logs. It contains the cause, which clients must not see.
func (e *Error) Error() string {
	s := e.Reason + ": " + e.Message
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.cause }

// Is compares codes, so that errors.Is(err, errs.ErrSoldOut) holds for every copy of ErrSoldOut,
// also for one received by gRPC.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// With returns a copy with one more public detail.
func (e *Error) With(key, value string) *Error {
	c := e.clone()
	if c.Metadata == nil {
		c.Metadata = make(map[string]string, 1)
	}
	c.Metadata[key] = value
	return c
}

// Wrap returns a copy with a cause for the log. An earlier cause is kept as well.
func (e *Error) Wrap(cause error) *Error {
	if cause == nil {
		return e
	}
	c := e.clone()
	if c.cause != nil {
		cause = errors.Join(cause, c.cause)
	}
	c.cause = cause
	return c
}

func (e *Error) WithRetry(after time.Duration) *Error {
	c := e.clone()
	c.RetryAfter = after
	return c
}

func (e *Error) WithFields(fields ...Field) *Error {
	c := e.clone()
	c.Fields = append(c.Fields, fields...)
	return c
}

func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
}

func (e *Error) clone() *Error {
	c := *e
	c.Metadata = maps.Clone(e.Metadata)
	c.Fields = slices.Clone(e.Fields)
	return &c
}

// FromPanic returns ErrInternal for a recovered value, with the stack as its cause. Call it in the
// deferred function that recovers.
func FromPanic(recovered any) *Error {
	return ErrInternal.Wrap(fmt.Errorf("panic: %v\n%s", recovered, debug.Stack()))
}

// From returns the *Error in the chain of err. If there is none it converts err: a context error
// becomes kind Deadline or Canceled, a gRPC status becomes the error that the server returned, and
// any other error becomes INTERNAL with err as its cause. The text of errors that wrap the *Error
// is kept in the cause. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // the exact type needs no copy
		return e
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		c := e.clone()
		c.cause = err
		return c
	case hasStatus(err):
		return FromStatus(err)
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadline.Wrap(err)
	case errors.Is(err, context.Canceled):
		return ErrCanceled.Wrap(err)
	default:
		return ErrInternal.Wrap(err)
	}
}

// Cause returns the error behind this one, for the log only; nil when there is none.
func (e *Error) Cause() error { return e.cause }
