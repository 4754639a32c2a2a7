// Package wire reads and writes the platform's JSON form of protobuf messages, for HTTP and Kafka.
// Unlike protojson it writes 64-bit integers as numbers (all of ours are below 2^53) and always
// writes zero values, so that a client can read every field without a check for absence:
//
//   - fields are lowerCamel, in the order of the .proto; scalars without presence, lists ([]) and
//     maps ({}, sorted) are always written;
//   - unset `optional` fields, unset messages and unset oneof fields are absent;
//   - enums are names, bytes are base64, google.protobuf.Timestamp is RFC 3339 in UTC with
//     milliseconds.
package wire

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooled is the largest buffer, in bytes, that is kept for reuse.
const maxPooled = 64 << 10

// Marshal returns the JSON form of m. It fails on strings that are not UTF-8 and on well-known
// types other than Timestamp and Empty.
func Marshal(m proto.Message) ([]byte, error) {
	p := buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool's only type
	b, err := Append((*p)[:0], m)
	var out []byte
	if err == nil {
		out = append(make([]byte, 0, len(b)), b...)
	}
	if cap(b) <= maxPooled {
		*p = b[:0]
		buffers.Put(p)
	}
	return out, err
}

// Append appends the JSON form of m to b.
func Append(b []byte, m proto.Message) ([]byte, error) {
	out, err := appendMessage(b, m.ProtoReflect())
	if err != nil {
		return b, fmt.Errorf("wire: %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return out, nil
}

// fieldEncoding says how a field of a message is written. It is computed once per message type.
type fieldEncoding struct {
	fd  protoreflect.FieldDescriptor
	key []byte // `"name":`
	// always means that the field is written even with its zero value.
	always bool
	put    func([]byte, protoreflect.Value) ([]byte, error)
}

var encodings sync.Map // protoreflect.MessageDescriptor → []fieldEncoding

func fieldEncodings(md protoreflect.MessageDescriptor) []fieldEncoding {
	if p, ok := encodings.Load(md); ok {
		return p.([]fieldEncoding) //nolint:forcetypeassert // the map's only type
	}
	fields := make([]fieldEncoding, md.Fields().Len())
	for i := range fields {
		fd := md.Fields().Get(i)
		fields[i] = fieldEncoding{
			fd: fd, key: append(appendString(nil, fd.JSONName()), ':'),
			always: !fd.HasPresence(), put: fieldPutter(fd),
		}
	}
	p, _ := encodings.LoadOrStore(md, fields)
	return p.([]fieldEncoding) //nolint:forcetypeassert // the map's only type
}

func fieldPutter(fd protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) ([]byte, error) {
	switch {
	case fd.IsMap():
		return mapPutter(fd)
	case fd.IsList():
		return listPutter(fd)
	default:
		return singlePutter(fd)
	}
}

func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	if full := m.Descriptor().FullName(); full.Parent() == "google.protobuf" {
		return appendWellKnown(b, m, full)
	}
	b = append(b, '{')
	first := true
	for _, f := range fieldEncodings(m.Descriptor()) {
		if !f.always && !m.Has(f.fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, f.key...)
		var err error
		if b, err = f.put(b, m.Get(f.fd)); err != nil {
			return b, fmt.Errorf("%s: %w", f.fd.JSONName(), err)
		}
	}
	return append(b, '}'), nil
}

func listPutter(fd protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) ([]byte, error) {
	put := singlePutter(fd)
	return func(b []byte, v protoreflect.Value) ([]byte, error) {
		l := v.List()
		b = append(b, '[')
		for i := range l.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = put(b, l.Get(i)); err != nil {
				return b, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return append(b, ']'), nil
	}
}
