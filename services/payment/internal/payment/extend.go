package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

const (
	extendPollEvery = 5 * time.Second
	extendBatch     = 200
)

// KeepClaims prolongs claims at the ticket service until ctx ends: for payments whose outcome is
// unknown, for those whose Kafka event the ticket service has not applied yet, and for Awaited ones.
// Otherwise a buyer who paid in time would lose the seats.
func (s *Service) KeepClaims(ctx context.Context) error {
	return loop.Every(ctx, extendPollEvery, s.ExtendDue)
}

// ExtendDue prolongs the claims that are due, each claim once a minute. A failed one is due again a
// minute later, before the claim ends.
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
	var applied []uuid.UUID
	for _, p := range due {
		switch {
		case underWay[p.ID] || p.Status.Unsettled():
		case p.Status == Open:
			err = errors.Join(err, s.endUnanswered(ctx, p))
		default:
			applied = append(applied, p.ID)
		}
	}
	if err != nil {
		return len(due), err
	}
	if len(applied) == 0 {
		return len(due), nil
	}
	return len(due), s.store.SettledAtTicket(ctx, applied)
}

// endUnanswered ends an Awaited payment whose claim has ended: by the longest extension of a hold, or
// since the ticket service did not answer. Its page, or authorisation, is then closed.
func (s *Service) endUnanswered(ctx context.Context, p Payment) error {
	var ends bool
	_, err := s.store.Apply(ctx, p.ID, func(p Payment, _ time.Time) (*Change, error) {
		if ends = p.Awaited(); !ends {
			return nil, nil //nolint:nilnil // it is being charged, or has ended
		}
		return ended(p, "the hold has ended before the provider answered"), nil
	})
	if err == nil && ends {
		s.opts.Observe.unanswered()
		s.log.ErrorContext(ctx, "payment ended before the provider answered whether its buyer has paid", "payment_id", p.ID, "order_id", p.OrderID)
	}
	return err
}
