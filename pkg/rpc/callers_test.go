package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"urr.guru/pkg/internal/callers"
	"urr.guru/pkg/rpc"
	_ "urr.guru/proto/gen/urr" // all requests
	commonv1 "urr.guru/proto/gen/urr/common/v1"
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

// A room may call what visitors of waiting rooms need, and nothing else: its pods face the crowd.
func TestRoomCallsForVisitorsOnly(t *testing.T) {
	t.Parallel()
	var allowed []string
	eachMethod(func(md protoreflect.MethodDescriptor) {
		access, _ := proto.GetExtension(md.Options(), commonv1.E_Access).(*commonv1.Access)
		if slices.Contains(access.GetCallers(), rpc.Room) {
			allowed = append(allowed, string(md.FullName()))
			edge, _ := proto.GetExtension(md.Options(), commonv1.E_Edge).(*commonv1.Edge)
			require.NotContains(t, []string{"staff", "admin"}, edge.GetWho(), md.FullName())
		}
	})
	require.ElementsMatch(t, []string{
		"urr.vwr.v1.VwrService.Assign", "urr.vwr.v1.VwrService.Check", "urr.vwr.v1.VwrService.Join", "urr.vwr.v1.VwrService.GetShuffle",
		"urr.vwr.v1.VwrService.ListShuffles", "urr.vwr.v1.VwrService.GetShuffleEntries", "urr.vwr.v1.VwrService.GetShuffleProof",
		"urr.vwr.v1.VwrService.WatchCounters", "urr.vwr.v1.VwrService.GetCounters", "urr.queue.v1.QueueService.WatchLines",
	}, allowed)
}

func eachRequest(visit func(protoreflect.MessageDescriptor)) {
	eachMethod(func(md protoreflect.MethodDescriptor) { visit(md.Input()) })
}

func eachMethod(visit func(protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			for j := range sd.Methods().Len() {
				if strings.HasPrefix(string(sd.FullName()), "urr.") {
					visit(sd.Methods().Get(j))
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
