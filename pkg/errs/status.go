package errs

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the ErrorInfo.domain of the gRPC errors of this platform.
const Domain = "urr.guru"

// kindRow has the HTTP and gRPC status codes of a kind. fallback is the error for a received status
// of this gRPC code without our ErrorInfo, which another program or grpc itself has made.
type kindRow struct {
	kind       Kind
	httpStatus int
	code       codes.Code
	fallback   *Error
}

//nolint:gochecknoglobals // a table
var kinds = []kindRow{
	{Invalid, 400, codes.InvalidArgument, ErrInvalidRequest},
	{Unauthenticated, 401, codes.Unauthenticated, ErrUnauthenticated},
	{Forbidden, 403, codes.PermissionDenied, ErrForbidden},
	{NotFound, 404, codes.NotFound, ErrNotFound},
	{Conflict, 409, codes.FailedPrecondition, ErrConflict},
	{Stale, 412, codes.Aborted, ErrPreconditionFailed},
	{Unprocessable, 422, codes.OutOfRange, ErrUnprocessable},
	{Exhausted, 429, codes.ResourceExhausted, ErrOverloaded},
	{Canceled, 499, codes.Canceled, ErrCanceled},
	{Unavailable, 503, codes.Unavailable, ErrUnavailable},
	{Deadline, 504, codes.DeadlineExceeded, ErrDeadline},
	{Internal, 500, codes.Internal, ErrInternal}, // last: also used for unknown kinds and codes
}

func (k Kind) statusRow() kindRow {
	i := slices.IndexFunc(kinds, func(r kindRow) bool { return r.kind == k })
	if i < 0 {
		i = len(kinds) - 1
	}
	return kinds[i]
}

func errorOfCode(c codes.Code) *Error {
	if c == codes.AlreadyExists { // only other programs send it
		return ErrConflict
	}
	i := slices.IndexFunc(kinds, func(r kindRow) bool { return r.code == c })
	if i < 0 {
		i = len(kinds) - 1
	}
	return kinds[i].fallback
}

// Sentence returns the general English sentence of a kind, for codes that are not in the catalogue.
func (k Kind) Sentence() string { return k.statusRow().fallback.Message }

// ToStatus converts an error to a gRPC status with the public sentence, ErrorInfo and, if set,
// BadRequest and RetryInfo. The cause is left out. ToStatus(nil) is nil.
func ToStatus(err error) error {
	e := From(err)
	if e == nil {
		return nil
	}
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: e.Reason, Domain: Domain, Metadata: e.Metadata},
	}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{FieldViolations: make([]*errdetails.BadRequest_FieldViolation, len(e.Fields))}
		for i, f := range e.Fields {
			bad.FieldViolations[i] = &errdetails.BadRequest_FieldViolation{Field: f.Path, Description: f.Message}
		}
		details = append(details, bad)
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	st := status.New(e.Kind.statusRow().code, e.Message)
	full, derr := st.WithDetails(details...)
	if derr != nil { // the metadata has a string that is not UTF-8; the code and sentence must still arrive
		return st.Err()
	}
	return full.Err()
}

// FromStatus converts a received gRPC status to the error that ToStatus was given. The whole status
// becomes its cause, so that the log says which call failed. FromStatus(nil) is nil.
func FromStatus(err error) *Error {
	if err == nil {
		return nil
	}
	var wrapped grpcStatus
	st, ok := status.FromError(err)
	switch {
	case !ok:
		return From(err)
	case errors.As(err, &wrapped):
		st = wrapped.GRPCStatus() // FromError adds the text of wrapping errors to the message
	}
	e := errorOfCode(st.Code()).clone()
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != Domain {
				continue
			}
			e.Reason, e.Message, e.Metadata = d.GetReason(), st.Message(), d.GetMetadata()
			e.Kind = errorOfCode(st.Code()).Kind
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Fields = append(e.Fields, Field{Path: v.GetField(), Message: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(0, d.GetRetryDelay().AsDuration().Round(time.Millisecond))
		}
	}
	e.cause = err
	return e
}

// grpcStatus is implemented by errors that contain a gRPC status.
type grpcStatus interface{ GRPCStatus() *status.Status }

func hasStatus(err error) bool {
	var s grpcStatus
	return errors.As(err, &s)
}
