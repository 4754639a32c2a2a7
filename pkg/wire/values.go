package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var errUTF8 = errors.New("not valid UTF-8")

// timeFormat always has milliseconds, so that times compare as text.
const timeFormat = "2006-01-02T15:04:05.000Z"

func singlePutter(fd protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) ([]byte, error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return strconv.AppendBool(b, v.Bool()), nil }
	case protoreflect.StringKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) {
			s := v.String()
			if !utf8.ValidString(s) {
				return b, errUTF8
			}
			return appendString(b, s), nil
		}
	case protoreflect.BytesKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) {
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, v.Bytes())
			return append(b, '"'), nil
		}
	case protoreflect.EnumKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) {
			if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
				return appendString(b, string(ev.Name())), nil
			}
			return strconv.AppendInt(b, int64(v.Enum()), 10), nil // a value that a newer program knows
		}
	case protoreflect.FloatKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return appendFloat(b, v.Float(), 32) }
	case protoreflect.DoubleKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return appendFloat(b, v.Float(), 64) }
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return strconv.AppendUint(b, v.Uint(), 10), nil }
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return appendMessage(b, v.Message()) }
	default: // the signed integers
		return func(b []byte, v protoreflect.Value) ([]byte, error) { return strconv.AppendInt(b, v.Int(), 10), nil }
	}
}

func mapPutter(fd protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) ([]byte, error) {
	put := singlePutter(fd.MapValue())
	return func(b []byte, v protoreflect.Value) ([]byte, error) {
		keys := make([]protoreflect.MapKey, 0, v.Map().Len())
		v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, k)
			return true
		})
		slices.SortFunc(keys, func(x, y protoreflect.MapKey) int { return strings.Compare(x.String(), y.String()) })
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			if !utf8.ValidString(k.String()) {
				return b, errUTF8
			}
			b = append(appendString(b, k.String()), ':')
			var err error
			if b, err = put(b, v.Map().Get(k)); err != nil {
				return b, fmt.Errorf("%q: %w", k.String(), err)
			}
		}
		return append(b, '}'), nil
	}
}

func appendWellKnown(b []byte, m protoreflect.Message, full protoreflect.FullName) ([]byte, error) {
	switch full {
	case "google.protobuf.Timestamp":
		return appendTime(b, m)
	case "google.protobuf.Empty":
		return append(b, '{', '}'), nil
	default:
		return b, fmt.Errorf("%s has no JSON form here", full)
	}
}

func appendTime(b []byte, m protoreflect.Message) ([]byte, error) {
	fields := m.Descriptor().Fields()
	ts := timestamppb.Timestamp{
		Seconds: m.Get(fields.ByNumber(1)).Int(),
		Nanos:   int32(m.Get(fields.ByNumber(2)).Int()), //nolint:gosec // an int32 field
	}
	if err := ts.CheckValid(); err != nil {
		return b, err
	}
	b = append(b, '"')
	b = ts.AsTime().Truncate(time.Millisecond).AppendFormat(b, timeFormat)
	return append(b, '"'), nil
}

// appendFloat writes the shortest form that reads back the same, as encoding/json does. JSON has no
// NaN and no infinity.
func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, fmt.Errorf("%v is not a JSON number", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, bits), nil
}

const hex = "0123456789abcdef"

// appendString writes s, which is valid UTF-8, as a JSON string (RFC 8259 §7): it escapes no more
// than it must.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, s[start:]...), '"')
}
