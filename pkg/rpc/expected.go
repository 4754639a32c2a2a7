package rpc

import (
	"urr.guru/pkg/plan"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// ToExpected converts a message. nil means that nothing is expected.
func ToExpected(in *commonv1.Expected) plan.Expected {
	return plan.Expected{Visitors: in.GetVisitors(), WithinSeconds: in.GetWithinSeconds()}
}

// FromExpected returns nil if nothing is expected.
func FromExpected(e plan.Expected) *commonv1.Expected {
	if !e.Any() {
		return nil
	}
	return &commonv1.Expected{Visitors: e.Visitors, WithinSeconds: e.WithinSeconds}
}
