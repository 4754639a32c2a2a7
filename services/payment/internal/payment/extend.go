package payment

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

const (
	extendPollEvery = 5 * time.Second
	extendBatch     = 200
)

// KeepClaims lengthens the claims of payments that ticket has not settled, until ctx ends: those whose
// outcome is not known yet, and those whose event ticket has not applied. Otherwise a buyer who has
// paid in time would lose the places.
func (s *Service) KeepClaims(ctx context.Context) error {
	return loop.Every(ctx, extendPollEvery, s.ExtendDue)
}

// ExtendDue lengthens the claims that are due, each claim once a minute. After a failure they are
// due again a minute later; a claim lasts longer than that.
func (s *Service) ExtendDue(ctx context.Context) {
	for {
		n, err := s.extendBatch(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "claims of payments not lengthened", "payments", n, "error", err)
		}
		if err != nil || n < extendBatch {
			return
		}
	}
}

func (s *Service) extendBatch(ctx context.Context) (n int, err error) {
	due, err := s.store.DueExtensions(ctx, extendBatch)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	callCtx, cancel := context.WithTimeout(ctx, ticketTimeout)
	defer cancel()
	ids, err := s.tickets.Extend(callCtx, due)
	if err != nil {
		return len(due), err
	}
	underWay := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		underWay[id] = true
	}
	var settled []uuid.UUID
	for _, p := range due {
		if !underWay[p.ID] && !p.Status.Unsettled() {
			settled = append(settled, p.ID)
		}
	}
	if len(settled) == 0 {
		return len(due), nil
	}
	return len(due), s.store.SettledAtTicket(ctx, settled)
}
