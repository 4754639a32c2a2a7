package app

import (
	"google.golang.org/protobuf/encoding/protojson"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// irreversible has, by RPC, what recognises requests that cannot be undone (edge.Route.Irreversible).
// All else that a pass-through route requires is in the options of its method.
var irreversible = map[string]func(body []byte) bool{
	ticketv1.EventAdminService_CancelEvent_FullMethodName: cancelsForGood,
}

// cancelsForGood reports whether the body of an event's cancellation leaves no time to undo it.
func cancelsForGood(body []byte) bool {
	var in ticketv1.CancelEventRequest
	return protojson.Unmarshal(body, &in) == nil && in.GraceSeconds != nil && in.GetGraceSeconds() == 0
}
