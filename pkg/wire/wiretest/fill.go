package wiretest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// epoch is earlier than all times that Fill sets, which are whole days apart.
var epoch = time.Date(2042, 1, 1, 0, 0, 0, 0, time.UTC)

// Fill sets every field of a message, and of the messages in it, to a different value that is not
// zero. Lists get two elements. Fields with stricter rules get the values in given, keyed by their
// path in the .proto, as "sections.price"; nil leaves a field out. So a test that fills a message
// and reads it back fails by itself when a new field is lost on the way.
func Fill(m proto.Message, given map[string]any) {
	(&filler{given: given}).fillMessage("", m.ProtoReflect())
}

type filler struct {
	given map[string]any
	n     int64
}

func (f *filler) fillMessage(prefix string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := prefix + string(fd.Name())
		value, isGiven := f.given[path]
		switch {
		case isGiven && value == nil:
		case isGiven:
			if message, ok := value.(proto.Message); ok {
				value = message.ProtoReflect()
			}
			m.Set(fd, protoreflect.ValueOf(value))
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range 2 {
				list.Append(f.nextValue(path, fd, list.NewElement()))
			}
		default:
			m.Set(fd, f.nextValue(path, fd, m.NewField(fd)))
		}
	}
}

// nextValue returns a new value of the field's kind. Numbers are small, and at least 11.
func (f *filler) nextValue(path string, fd protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	f.n++
	n := 10 + f.n
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s%d", fd.Name(), n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(n)})
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n)) //nolint:gosec // as many as there are members
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.MessageKind:
		if fd.Message().FullName() == "google.protobuf.Timestamp" {
			return protoreflect.ValueOfMessage(timestamppb.New(epoch.AddDate(0, 0, int(n))).ProtoReflect())
		}
		f.fillMessage(path+".", empty.Message())
		return empty
	default:
		panic(fmt.Sprintf("wiretest: %s is of a kind that no message has yet: %s", path, fd.Kind()))
	}
}

// Unset returns the paths of the fields that are set in none of the messages, which are all of one
// type. A test with Fill does not cover these fields.
func Unset[M proto.Message](messages ...M) []string {
	set := map[string]bool{}
	for _, m := range messages {
		markSet(set, "", m.ProtoReflect())
	}
	var unset []string
	for path, is := range set {
		if !is {
			unset = append(unset, path)
		}
	}
	slices.Sort(unset)
	return unset
}

func markSet(set map[string]bool, prefix string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := prefix + string(fd.Name())
		set[path] = set[path] || m.Has(fd)
		if !m.Has(fd) || fd.Kind() != protoreflect.MessageKind || fd.Message().FullName().Parent() == "google.protobuf" {
			continue
		}
		if !fd.IsList() {
			markSet(set, path+".", m.Get(fd).Message())
			continue
		}
		for i := range m.Get(fd).List().Len() {
			markSet(set, path+".", m.Get(fd).List().Get(i).Message())
		}
	}
}

// RequireShown fails unless the message view has every field of the message made, with the same
// name, type and value, apart from the fields listed in except.
func RequireShown(t testing.TB, made, view proto.Message, except ...string) {
	t.Helper()
	from, to := made.ProtoReflect(), view.ProtoReflect()
	fields := from.Descriptor().Fields()
	for i := range fields.Len() {
		given := fields.Get(i)
		if slices.Contains(except, string(given.Name())) {
			continue
		}
		shown := to.Descriptor().Fields().ByName(given.Name())
		require.NotNil(t, shown, "%s has no %s", to.Descriptor().Name(), given.Name())
		require.True(t, from.Get(given).Equal(to.Get(shown)), "%s: %v in %s, %v in %s", given.Name(),
			from.Get(given), from.Descriptor().Name(), to.Get(shown), to.Descriptor().Name())
	}
}
