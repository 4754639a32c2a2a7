package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
)

// Unmarshal reads JSON into m strictly, in the form that Marshal writes:
//
//   - unknown fields are refused, including names as in the .proto (event_id), and so is any
//     Caller, which only the gateway's own code may set;
//   - a repeated field is refused, whatever its values;
//   - integers are JSON numbers without a fraction or an exponent, exactly within the range of
//     their kind; "3", 3.0 and 3e0 are refused, and so are other numbers out of range or as text
//     ("NaN");
//   - null means absent; an element of a list cannot be null;
//   - absent fields keep their value in m.
//
// The error is errs.ErrInvalidUTF8, errs.ErrUnknownField or errs.ErrInvalidRequest; its field is
// the path of the field, as "sections[0].price". m must not be used then.
func Unmarshal(b []byte, m proto.Message) error {
	if !utf8.Valid(b) {
		return errs.ErrInvalidUTF8
	}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(b, m); err != nil {
		return explainError(b, err)
	}
	return checkStrict(b, m.ProtoReflect().Descriptor())
}

var (
	positionRE = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	kindRE     = regexp.MustCompile(`invalid (?:value for )?(\w+)`)
	unknownRE  = regexp.MustCompile(`unknown field`)
	repeatedRE = regexp.MustCompile(`duplicate (?:field|map key)|is already set`)
)

// explainError finds the field that protojson refused. protojson's errors have a position, but no
// path and no stable text. An error without a position is reported without the field.
func explainError(b []byte, err error) error {
	text := err.Error()
	pos := positionRE.FindStringSubmatch(text)
	if pos == nil {
		return errs.ErrInvalidRequest.Wrap(err)
	}
	line, _ := strconv.Atoi(pos[1])
	column, _ := strconv.Atoi(pos[2])
	path, ok := pathAt(b, offsetOf(b, line, column))
	if !ok {
		return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{
			Message: fmt.Sprintf("is not valid JSON (line %d, column %d)", line, column),
		})
	}
	switch {
	case unknownRE.MatchString(text):
		return errs.ErrUnknownField.Wrap(err).WithFields(errs.Field{Path: path, Message: notKnown})
	case repeatedRE.MatchString(text):
		return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Path: path, Message: "is there twice"})
	}
	message := "is of the wrong type"
	if kind := kindRE.FindStringSubmatch(text); kind != nil {
		message = describeKind(kind[1])
	}
	return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Path: path, Message: message})
}

func describeKind(kind string) string {
	switch kind {
	case "int32", "int64", "sint32", "sint64", "uint32", "uint64", "fixed32", "fixed64", "sfixed32", "sfixed64":
		return wholeNumber
	case "float", "double":
		return number
	case "bool":
		return "must be true or false"
	case "string":
		return "must be a string"
	case "bytes":
		return "must be base64"
	case "enum":
		return "is not one of the known values"
	case "google":
		return "must be a time as 2026-01-31T20:00:00Z"
	default:
		return "is of the wrong type"
	}
}
