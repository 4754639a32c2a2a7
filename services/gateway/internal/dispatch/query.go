package dispatch

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
)

const callerMember = "caller"

// checkQuery refuses bad encoding, invalid UTF-8 and a caller, and for pass-through routes malformed
// numbers, since grpc-gateway's error would not name the parameter. Unknown parameters are ignored,
// since trackers add theirs. Queries of pages are not checked: only scripts in the browser read them,
// and mail programs alter links.
func checkQuery(raw string, q *edge.Request) error {
	if raw == "" || q.Route.Page {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Path: "query", Message: "is not well-formed"})
	}
	input := inputOf(q.Route)
	for name, list := range values {
		if strings.ContainsRune(name+strings.Join(list, ""), 0) { // PostgreSQL cannot store it
			return errs.ErrInvalidRequest.WithFields(errs.Field{Path: "query", Message: "must not contain the character U+0000"})
		}
		if !utf8.ValidString(name) {
			return errs.ErrInvalidUTF8
		}
		if name == callerMember || strings.HasPrefix(name, callerMember+".") || strings.HasPrefix(name, callerMember+"[") {
			return errs.ErrUnknownField.WithFields(errs.Field{Path: name, Message: "is not known"})
		}
		for _, v := range list {
			if !utf8.ValidString(v) {
				return errs.ErrInvalidUTF8
			}
			if err := checkParameter(input, name, v, len(list)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inputOf returns the request message of a pass-through route without a body; nil for all others.
func inputOf(r *edge.Route) protoreflect.MessageDescriptor {
	if r.RPC == "" || r.Body.JSON {
		return nil
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(r.RPC, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	return m.Input()
}

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
