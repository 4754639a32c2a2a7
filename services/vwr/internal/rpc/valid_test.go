package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	pkgrpc "urr.guru/pkg/rpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/rpc"
)

// Valid accepts exactly the requests that the rules of the proto accept.
func TestValidAgreesWithTheProto(t *testing.T) {
	t.Parallel()
	const id = "0123abcd-ABCD-4abc-8abc-0123456789ab"
	events := []string{"", "e", "a/b", "a\n", "공연", strings.Repeat("x", 64), strings.Repeat("x", 65)}
	for c := range 256 {
		events = append(events, "a"+string(rune(c)))
	}
	requests := []proto.Message{&vwrv1.AssignRequest{}, &vwrv1.CheckRequest{}, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{nil}}}
	for _, e := range events {
		requests = append(requests, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{EventId: "a"}, {EventId: e}}},
			&vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{{EventId: "a", RequestId: id}, {EventId: e, RequestId: id}}})
	}
	for _, other := range []string{"", "urn:uuid:" + id, "{" + id + "}", strings.ReplaceAll(id, "-", ""), id[:35] + "g", id + "0", id[:8] + "0" + id[9:]} {
		requests = append(requests, &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{{EventId: "a", RequestId: other}}})
	}
	for _, n := range []int{1000, 1001} {
		requests = append(requests, &vwrv1.AssignRequest{Items: slices.Repeat([]*vwrv1.AssignItem{{EventId: "a"}}, n)},
			&vwrv1.CheckRequest{Items: slices.Repeat([]*vwrv1.CheckItem{{EventId: "a", RequestId: id}}, n)})
	}
	for _, req := range requests {
		require.Equal(t, pkgrpc.Validate(req) == nil, (&rpc.Visitors{}).Valid(req), "%.200v", req)
	}
	require.False(t, (&rpc.Visitors{}).Valid(&vwrv1.GetCountersRequest{EventIds: []string{"a"}}), "left to the rules")
}
