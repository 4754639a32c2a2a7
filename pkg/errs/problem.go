package errs

import (
	"strings"
	"time"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// fieldPrefix is the start of the metadata keys of a Problem that contain an error's Fields, for
// which the message Problem has no field of its own.
const fieldPrefix = "field."

// ToProblem converts an error to the Problem of one item in a batch response; nil stays nil. The
// cause of the error is left out.
func ToProblem(err error) *commonv1.Problem {
	e := From(err)
	if e == nil {
		return nil
	}
	p := &commonv1.Problem{Reason: e.Reason, Kind: string(e.Kind), Message: e.Message, RetryAfterMs: e.RetryAfter.Milliseconds()}
	if n := len(e.Metadata) + len(e.Fields); n > 0 {
		p.Metadata = make(map[string]string, n)
		for k, v := range e.Metadata {
			p.Metadata[k] = v
		}
		for _, f := range e.Fields {
			p.Metadata[fieldPrefix+f.Path] = f.Message
		}
	}
	return p
}

// FromProblem converts a Problem back to the error that ToProblem was given; nil stays nil.
func FromProblem(p *commonv1.Problem) *Error {
	if p == nil {
		return nil
	}
	e := &Error{
		Kind: Kind(p.GetKind()), Reason: p.GetReason(), Message: p.GetMessage(),
		RetryAfter: time.Duration(p.GetRetryAfterMs()) * time.Millisecond,
	}
	for k, v := range p.GetMetadata() {
		if path, ok := strings.CutPrefix(k, fieldPrefix); ok && path != "" {
			e.Fields = append(e.Fields, Field{Path: path, Message: v})
			continue
		}
		if e.Metadata == nil {
			e.Metadata = make(map[string]string, len(p.GetMetadata()))
		}
		e.Metadata[k] = v
	}
	sortFields(e.Fields)
	return e
}
