package rpc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"urr.guru/pkg/internal/callers"
	_ "urr.guru/proto/gen/urr/payment/v1"
	_ "urr.guru/proto/gen/urr/queue/v1"
	_ "urr.guru/proto/gen/urr/stats/v1"
	_ "urr.guru/proto/gen/urr/ticket/v1"
	_ "urr.guru/proto/gen/urr/vwr/v1"
)

// Wherever a request of today can carry a Caller, it is found there: a place that is overlooked would let anyone say who asks.
func TestNoCallerIsOverlooked(t *testing.T) {
	t.Parallel()
	places := 0
	eachRequest(func(md protoreflect.MessageDescriptor) {
		for _, place := range placesOf(md) {
			places++
			m := dynamicpb.NewMessage(md)
			put(m, place)
			require.Equal(t, jsonPath(place), callers.Find(m), "%s", md.FullName())
		}
		require.Empty(t, callers.Find(dynamicpb.NewMessage(md)), "%s", md.FullName())
	})
	require.Greater(t, places, 20)
}

func eachRequest(visit func(protoreflect.MessageDescriptor)) {
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			for j := range sd.Methods().Len() {
				if strings.HasPrefix(string(sd.FullName()), "urr.") {
					visit(sd.Methods().Get(j).Input())
				}
			}
		}
		return true
	})
}

// placesOf lists the paths of fields that end at a Caller. A message that contains itself would not end here: requests have none.
func placesOf(md protoreflect.MessageDescriptor) (places [][]protoreflect.FieldDescriptor) {
	for i := range md.Fields().Len() {
		f := md.Fields().Get(i)
		switch {
		case f.Message() == nil:
		case f.Message().FullName() == "urr.common.v1.Caller":
			places = append(places, []protoreflect.FieldDescriptor{f})
		default:
			for _, rest := range placesOf(f.Message()) {
				places = append(places, append([]protoreflect.FieldDescriptor{f}, rest...))
			}
		}
	}
	return places
}

func put(m protoreflect.Message, place []protoreflect.FieldDescriptor) {
	var next protoreflect.Message
	if f := place[0]; f.IsList() {
		m.Mutable(f).List().AppendMutable() // the first item has none
		next = m.Mutable(f).List().AppendMutable().Message()
	} else {
		next = m.Mutable(f).Message()
	}
	if len(place) > 1 {
		put(next, place[1:])
	}
}

func jsonPath(place []protoreflect.FieldDescriptor) string {
	names := make([]string, len(place))
	for i, f := range place {
		names[i] = f.JSONName()
	}
	return strings.Join(names, ".")
}
