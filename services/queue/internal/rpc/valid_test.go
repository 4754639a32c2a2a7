package rpc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pkgrpc "urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/rpc"
)

// Valid accepts exactly the requests that the rules of the proto accept.
func TestValidAgreesWithTheProto(t *testing.T) {
	t.Parallel()
	requestOf := func(events ...string) *queuev1.LineRequest {
		req := &queuev1.LineRequest{}
		for _, e := range events {
			req.Items = append(req.Items, &queuev1.LineItem{EventId: e})
		}
		return req
	}
	repeated := func(n int) []string { return strings.Split(strings.Repeat("e ", n-1)+"e", " ") }
	requests := map[string]*queuev1.LineRequest{
		"none": requestOf(), "nil item": {Items: []*queuev1.LineItem{nil}}, "1000 items": requestOf(repeated(1000)...), "1001 items": requestOf(repeated(1001)...),
		"one bad of three": requestOf("a", "b/c", "d"), "64 bytes": requestOf(strings.Repeat("x", 64)), "65 bytes": requestOf(strings.Repeat("x", 65)), "empty": requestOf(""),
		"line break": requestOf("a\n"), "not ASCII": requestOf("공연"), "with everything": {Items: []*queuev1.LineItem{
			{EventId: "a", Ticket: "t", Entry: &queuev1.EntryClaims{SlotId: "not a uuid", Epoch: -1}},
		}},
	}
	for c := range 256 {
		requests["character "+string(rune(c))] = requestOf("a" + string(rune(c)))
	}
	for name, req := range requests {
		require.Equal(t, pkgrpc.Validate(req) == nil, (&rpc.Visitors{}).Valid(req), name)
	}
	require.False(t, (&rpc.Visitors{}).Valid(&queuev1.GetLoadRequest{EventId: "a"}), "left to the rules")
}
