package rpc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"urr.guru/pkg/internal/callers"
	_ "urr.guru/proto/gen/urr" // all requests
)

// Every field of the current requests that can carry a Caller is found: a field that is missed
// would let any service forge one.
func TestEveryCallerFieldIsFound(t *testing.T) {
	t.Parallel()
	paths := 0
	eachRequest(func(md protoreflect.MessageDescriptor) {
		for _, path := range callerPaths(md) {
			paths++
			m := dynamicpb.NewMessage(md)
			setCaller(m, path)
			require.Equal(t, jsonPath(path), callers.Find(m), "%s", md.FullName())
		}
		require.Empty(t, callers.Find(dynamicpb.NewMessage(md)), "%s", md.FullName())
	})
	require.Greater(t, paths, 20)
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

// callerPaths lists the paths of fields that end at a Caller. It would not terminate for a
// recursive message; no request is one.
func callerPaths(md protoreflect.MessageDescriptor) (paths [][]protoreflect.FieldDescriptor) {
	for i := range md.Fields().Len() {
		f := md.Fields().Get(i)
		switch {
		case f.Message() == nil:
		case f.Message().FullName() == "urr.common.v1.Caller":
			paths = append(paths, []protoreflect.FieldDescriptor{f})
		default:
			for _, rest := range callerPaths(f.Message()) {
				paths = append(paths, append([]protoreflect.FieldDescriptor{f}, rest...))
			}
		}
	}
	return paths
}

func setCaller(m protoreflect.Message, path []protoreflect.FieldDescriptor) {
	var next protoreflect.Message
	if f := path[0]; f.IsList() {
		m.Mutable(f).List().AppendMutable() // the first item has no caller
		next = m.Mutable(f).List().AppendMutable().Message()
	} else {
		next = m.Mutable(f).Message()
	}
	if len(path) > 1 {
		setCaller(next, path[1:])
	}
}

func jsonPath(path []protoreflect.FieldDescriptor) string {
	names := make([]string, len(path))
	for i, f := range path {
		names[i] = f.JSONName()
	}
	return strings.Join(names, ".")
}
