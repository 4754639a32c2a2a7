package errs

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the ErrorInfo.domain of every reason in the catalogue.
const Domain = "urr.guru"

// Kinds and codes map one to one; the remaining code (AlreadyExists) is only received from other
// programs.
func (k Kind) code() codes.Code {
	switch k {
	case Invalid:
		return codes.InvalidArgument
	case Unauthenticated:
		return codes.Unauthenticated
	case Forbidden:
		return codes.PermissionDenied
	case NotFound:
		return codes.NotFound
	case Conflict:
		return codes.FailedPrecondition
	case Stale:
		return codes.Aborted
	case Unprocessable:
		return codes.OutOfRange
	case Exhausted:
		return codes.ResourceExhausted
	case Canceled:
		return codes.Canceled
	case Unavailable:
		return codes.Unavailable
	case Deadline:
		return codes.DeadlineExceeded
	default:
		return codes.Internal
	}
}

// fallback is the error of a status without our ErrorInfo: from another program or from grpc
// itself.
func fallback(c codes.Code) *Error {
	switch c {
	case codes.InvalidArgument:
		return ErrInvalidRequest
	case codes.Unauthenticated:
		return ErrUnauthenticated
	case codes.PermissionDenied:
		return ErrForbidden
	case codes.NotFound:
		return ErrNotFound
	case codes.FailedPrecondition, codes.AlreadyExists:
		return ErrConflict
	case codes.Aborted:
		return ErrPreconditionFailed
	case codes.OutOfRange:
		return ErrUnprocessable
	case codes.ResourceExhausted:
		return ErrOverloaded
	case codes.Canceled:
		return ErrCanceled
	case codes.Unavailable:
		return ErrUnavailable
	case codes.DeadlineExceeded:
		return ErrDeadline
	default:
		return ErrInternal
	}
}

// Sentence is the general sentence of a kind, for codes that the catalogue does not have.
func (k Kind) Sentence() string { return fallback(k.code()).Message }

// ToStatus converts err to a gRPC status error with the public sentence, ErrorInfo and, if set,
// BadRequest and RetryInfo. Causes are not included. ToStatus(nil) is nil.
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
	st := status.New(e.Kind.code(), e.Message)
	full, derr := st.WithDetails(details...)
	if derr != nil { // a string that is not UTF-8 in the metadata; the code and sentence must still arrive
		return st.Err()
	}
	return full.Err()
}

// FromStatus is the inverse of ToStatus; the whole status becomes the cause, so that the log says
// which call failed. FromStatus(nil) is nil.
func FromStatus(err error) *Error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return From(err)
	}
	if own := ownStatus(err); own != nil {
		st = own // FromError puts the text of what is wrapped around a status into its message
	}
	e := fallback(st.Code()).clone()
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != Domain {
				continue
			}
			e.Reason, e.Message, e.Metadata = d.GetReason(), st.Message(), d.GetMetadata()
			e.Kind = fallback(st.Code()).Kind
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

// ownStatus is the received status without the errors wrapped around it.
func ownStatus(err error) *status.Status {
	var s interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &s) {
		return nil
	}
	return s.GRPCStatus()
}

func hasStatus(err error) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s)
}
