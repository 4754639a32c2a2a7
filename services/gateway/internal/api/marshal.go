package api

import (
	"errors"
	"io"
	"reflect"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"
)

// Marshaler makes grpc-gateway read and write JSON as package pkg/wire does.
type Marshaler struct{}

var _ runtime.Marshaler = Marshaler{}

var errNoMessage = errors.New("api: not a protobuf message")

func (Marshaler) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return wire.Marshal(m)
}

func (Marshaler) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return errNoMessage
	}
	return wire.Unmarshal(b, m)
}

func (Marshaler) ContentType(any) string { return "application/json" }

// NewDecoder returns a decoder of the request's body, which has been read before. The decoder also
// stores its error in edge.Request.BodyErr, because the generated code keeps only the text.
func (Marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		m, ok := messageToDecode(v)
		b, isBody := r.(*requestBody)
		if !ok || !isBody {
			return errNoMessage
		}
		if len(b.q.Body) == 0 {
			return io.EOF // no body: no field is set
		}
		b.q.BodyErr = parseBody(b.q, m)
		return b.q.BodyErr
	})
}

// messageToDecode returns the message into which the body is decoded. If v is a message, that is v.
// Otherwise the body is only the request's field `spec`, and v points to this field: it is then set
// to a new message, even without a body, so that validation reports what the message lacks.
func messageToDecode(v any) (proto.Message, bool) {
	if m, ok := v.(proto.Message); ok {
		return m, true
	}
	member := reflect.ValueOf(v).Elem()
	if member.Kind() != reflect.Pointer {
		return nil, false
	}
	member.Set(reflect.New(member.Type().Elem()))
	m, ok := member.Interface().(proto.Message)
	return m, ok
}

// parseBody parses the body into m. It refuses a body with a field that is also a path parameter,
// since the two values could differ.
func parseBody(q *edge.Request, m proto.Message) error {
	err := wire.Unmarshal(q.Body, m)
	var unknown string
	if errors.Is(err, errs.ErrUnknownField) {
		unknown = errs.From(err).Fields[0].Path
	}
	for _, param := range q.Route.Params() {
		name := edge.PublicName(param)
		fd := m.ProtoReflect().Descriptor().Fields().ByJSONName(name)
		if unknown == name || err == nil && fd != nil && m.ProtoReflect().Has(fd) {
			return errs.ErrUnknownField.WithFields(errs.Field{Path: name, Message: "stands in the path"})
		}
	}
	return err
}

func (m Marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		b, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
}

// requestBody passes the edge.Request to NewDecoder as an http body. It reads as empty, since the
// gateway has read the body before.
type requestBody struct{ q *edge.Request }

func (*requestBody) Read([]byte) (int, error) { return 0, io.EOF }

func (*requestBody) Close() error { return nil }
