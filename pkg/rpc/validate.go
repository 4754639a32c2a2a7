package rpc

import (
	"errors"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
)

// Validate checks a message against its buf.validate rules; a violation becomes
// errs.ErrInvalidRequest with one field per violated rule. The gateway and the servers share it, so
// that each rule is written once, in the proto.
func Validate(m proto.Message) error {
	err := protovalidate.Validate(m)
	if err == nil {
		return nil
	}
	var bad *protovalidate.ValidationError
	if !errors.As(err, &bad) {
		return errs.ErrInternal.Wrap(err) // a rule that does not compile
	}
	fields := make([]errs.Field, len(bad.Violations))
	for i, v := range bad.Violations {
		path := strings.TrimPrefix(protovalidate.FieldPathString(v.Proto.GetField()), specPrefix)
		fields[i] = errs.Field{Path: lowerCamel(path), Message: v.Proto.GetMessage()}
	}
	return errs.ErrInvalidRequest.WithFields(fields...)
}

// specPrefix is left out of the paths that clients see: if a request has a field named spec, that
// field is the body of the HTTP request (body: "spec" in the rule of google.api.http).
const specPrefix = "spec."

// lowerCamel converts a path of names in the .proto to the JSON names that clients use:
// sections[0].seats_per_row → sections[0].seatsPerRow.
func lowerCamel(path string) string {
	if !strings.Contains(path, "_") {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	upperNext, quoted := false, false
	for i := range len(path) {
		c := path[i]
		switch {
		case c == '"':
			quoted = !quoted
		case c == '_' && !quoted: // a map's key in quotes is data, not a name
			upperNext = true
			continue
		case upperNext && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		upperNext = false
		b.WriteByte(c)
	}
	return b.String()
}
