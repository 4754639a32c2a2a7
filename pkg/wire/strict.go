package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/internal/callers"
)

// checkStrict refuses JSON that protojson accepts but our schemas do not: numbers as strings,
// integers with a fraction or an exponent, fields by their name in the .proto instead of their
// JSON name, text with U+0000, and every Caller, null or not. protojson must have read the document
// into a message of type md before, so all names and nestings are known to fit.
func checkStrict(b []byte, md protoreflect.MessageDescriptor) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	path, message := (&strictWalk{dec}).checkMessage(md)
	if message == "" {
		return nil
	}
	base := errs.ErrInvalidRequest
	if message == notKnown {
		base = errs.ErrUnknownField
	}
	return base.WithFields(errs.Field{Path: strings.TrimPrefix(path, "."), Message: message})
}

const (
	notKnown    = "is not known"
	wholeNumber = "must be a whole number in range"
	number      = "must be a number"
	noNull      = "must not contain the character U+0000"
)

// strictWalk checks a document token by token. Its methods return the path of the first wrong
// field, as ".sections[0].price", and what is wrong; both are "" if nothing is.
type strictWalk struct{ dec *json.Decoder }

// nextToken returns the next token. It returns nil for a null and at the end of the input, which a
// valid document does not reach.
func (w *strictWalk) nextToken() json.Token {
	tok, _ := w.dec.Token()
	return tok
}

// checkMessage checks an object, or the string or null that stands for a message.
func (w *strictWalk) checkMessage(md protoreflect.MessageDescriptor) (path, message string) {
	if w.nextToken() != json.Delim('{') {
		return "", ""
	}
	for w.dec.More() {
		name, _ := w.nextToken().(string)
		fd := md.Fields().ByJSONName(name)
		if fd == nil || fd.Message() != nil && fd.Message().FullName() == callers.Name {
			return "." + name, notKnown
		}
		if path, message = w.checkMember(fd); message != "" {
			return "." + name + path, message
		}
	}
	w.nextToken()
	return "", ""
}

func (w *strictWalk) checkMember(fd protoreflect.FieldDescriptor) (path, message string) {
	switch {
	case fd.IsMap():
		return w.checkMap(fd.MapValue())
	case fd.IsList():
		return w.checkList(fd)
	default:
		return w.checkSingle(fd)
	}
}

func (w *strictWalk) checkList(fd protoreflect.FieldDescriptor) (path, message string) {
	if w.nextToken() == nil {
		return "", ""
	}
	for i := 0; w.dec.More(); i++ {
		if path, message = w.checkSingle(fd); message != "" {
			return "[" + strconv.Itoa(i) + "]" + path, message
		}
	}
	w.nextToken()
	return "", ""
}

func (w *strictWalk) checkMap(fd protoreflect.FieldDescriptor) (path, message string) {
	if w.nextToken() == nil {
		return "", ""
	}
	for w.dec.More() {
		name, _ := w.nextToken().(string)
		if path, message = w.checkSingle(fd); message != "" {
			return "." + name + path, message
		}
	}
	w.nextToken()
	return "", ""
}

func (w *strictWalk) checkSingle(fd protoreflect.FieldDescriptor) (path, message string) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return w.checkMessage(fd.Message())
	case protoreflect.StringKind: // PostgreSQL cannot store the character
		if text, ok := w.nextToken().(string); ok && strings.ContainsRune(text, 0) {
			return "", noNull
		}
		return "", ""
	case protoreflect.BoolKind, protoreflect.BytesKind, protoreflect.EnumKind:
		w.nextToken() // protojson is strict enough about these
		return "", ""
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if _, text := w.nextToken().(string); text {
			return "", number
		}
		return "", ""
	default:
		switch tok := w.nextToken().(type) {
		case string:
			return "", wholeNumber
		case json.Number:
			if strings.ContainsAny(tok.String(), ".eE") {
				return "", wholeNumber
			}
		}
		return "", ""
	}
}
