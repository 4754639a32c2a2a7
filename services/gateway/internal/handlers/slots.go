package handlers

import (
	"context"

	"urr.guru/pkg/rpc/batchrpc"
	"urr.guru/services/gateway/internal/edge"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// SlotVerifier asks the queue service whether slots still exist.
type SlotVerifier struct {
	verify *lineBatches[*queuev1.SlotItem, bool]
}

var _ edge.Slots = (*SlotVerifier)(nil)

// NewSlotVerifier makes a SlotVerifier; known has the lines that the queue service has listed.
func NewSlotVerifier(known KnownEvents, queue queuev1.QueueServiceClient) *SlotVerifier {
	return &SlotVerifier{verify: newLineBatches(known, batchConfig(callTimeout), batchrpc.Call(queue.VerifySlots, func(items []*queuev1.SlotItem) *queuev1.VerifySlotsRequest {
		return &queuev1.VerifySlotsRequest{Items: items}
	}, (*queuev1.SlotResult).GetActive))}
}

func (s *SlotVerifier) Active(ctx context.Context, event, user, slot string, epoch int64) (bool, error) {
	active, err := s.verify.Do(ctx, event, &queuev1.SlotItem{EventId: event, UserId: user, SlotId: slot, Epoch: epoch})
	if err != nil {
		return false, withRedirect(err, event)
	}
	return active, nil
}

func (s *SlotVerifier) Close(ctx context.Context) error { return s.verify.Close(ctx) }
