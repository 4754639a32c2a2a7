package handlers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/wire"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// requirePlaceAsWire fails unless appendPlace and wire.Marshal return the same.
func requirePlaceAsWire(t *testing.T, p *queuev1.Place) {
	t.Helper()
	got, ok := appendPlace(nil, p)
	want, err := wire.Marshal(p)
	if !ok {
		return // writePlace uses wire.Marshal
	}
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// Every field is set once, so that the test fails if appendPlace lacks a field that is added later.
func TestPlaceAsWire(t *testing.T) {
	t.Parallel()
	all := &queuev1.Place{}
	requirePlaceAsWire(t, all)
	fields := all.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f, single := fields.Get(i), (&queuev1.Place{}).ProtoReflect()
		var v protoreflect.Value
		switch f.Kind() {
		case protoreflect.StringKind:
			v = protoreflect.ValueOfString("봄밤 & <b>")
		case protoreflect.BoolKind:
			v = protoreflect.ValueOfBool(true)
		case protoreflect.Int64Kind:
			v = protoreflect.ValueOfInt64(-1 << 60)
		default:
			require.Fail(t, "no value of this kind", f.Kind())
		}
		single.Set(f, v)
		all.ProtoReflect().Set(f, v)
		for _, p := range []protoreflect.Message{single, all.ProtoReflect()} {
			m, _ := p.Interface().(*queuev1.Place)
			_, ok := appendPlace(nil, m)
			require.True(t, ok, f.Name())
			requirePlaceAsWire(t, m)
		}
	}
}

func FuzzPlaceAsWire(f *testing.F) {
	for _, s := range []string{"", "queued", `"`, `\`, "\n", "\x00", "\x7f", "\xff", "é \u2028", "\U0001f600"} {
		f.Add(s, s, int64(1), true)
	}
	f.Fuzz(func(t *testing.T, status, title string, n int64, set bool) {
		p := &queuev1.Place{Status: status, Queued: set, Position: n, QueueSize: -n}
		if set {
			p.EventTitle, p.Ticket, p.ExpiresAt = &title, &title, &n
		}
		requirePlaceAsWire(t, p)
	})
}
