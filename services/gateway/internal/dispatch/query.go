package dispatch

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
)

const callerMember = "caller"

// checkQuery refuses a query with bad encoding, invalid UTF-8 or a parameter `caller`. On
// pass-through routes it also refuses malformed numbers, since grpc-gateway's error would not say
// which parameter is wrong. It ignores unknown parameters, since trackers add some. It does not
// check queries of pages: only scripts in the browser read them, and mail programs alter links.
func checkQuery(raw string, q *edge.Request) error {
	if raw == "" || q.Route.Page {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Path: "query", Message: "is not well-formed"})
	}
	var input protoreflect.MessageDescriptor
	if !q.Route.Body.JSON {
		input = q.Route.Input()
	}
	for name, list := range values {
		if err := checkText(name); err != nil {
			return err
		}
		if name == callerMember || strings.HasPrefix(name, callerMember+".") || strings.HasPrefix(name, callerMember+"[") {
			return errs.ErrUnknownField.WithFields(errs.Field{Path: name, Message: "is not known"})
		}
		for _, v := range list {
			if err := checkText(v); err != nil {
				return err
			}
			if err := checkParameter(input, name, v, len(list)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkText refuses invalid UTF-8, and the character U+0000, which PostgreSQL cannot store.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errs.ErrInvalidUTF8
	}
	if strings.IndexByte(s, 0) >= 0 {
		return errs.ErrInvalidRequest.WithFields(errs.Field{Path: "query", Message: "must not contain the character U+0000"})
	}
	return nil
}

// checkParameter refuses a value that the field of this name cannot have. It ignores unknown names.
func checkParameter(input protoreflect.MessageDescriptor, name, value string, count int) error {
	if input == nil {
		return nil
	}
	fd := input.Fields().ByJSONName(name)
	if fd == nil {
		fd = input.Fields().ByName(protoreflect.Name(name))
	}
	if fd == nil || fd.IsList() {
		return nil
	}
	refuse := func(message string) error {
		return errs.ErrInvalidRequest.WithFields(errs.Field{Path: name, Message: message})
	}
	if count > 1 {
		return refuse("is there twice")
	}
	bits := 64
	switch fd.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		bits = 32
		fallthrough
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		if _, err := strconv.ParseInt(value, 10, bits); err != nil {
			return refuse("must be a whole number in range")
		}
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			return refuse("must be true or false")
		}
	default:
	}
	return nil
}
