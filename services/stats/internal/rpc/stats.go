// Package rpc serves the figures and the audit log.
package rpc

import (
	"context"

	"urr.guru/pkg/rpc"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/figures"
)

// Figures reads the totals of one event (a performance, campaign or promotion) from the database.
type Figures interface {
	EventCounts(ctx context.Context, eventID string) (figures.EventCounts, error)
	EventRevenue(ctx context.Context, eventID string) ([]figures.EventRevenue, error)
	EventRewards(ctx context.Context, eventID string) (figures.EventRewards, error)
	EventRequests(ctx context.Context, eventID string) (figures.EventRequests, error)
}

// Stats serves the RPCs of StatsService: figures of events, and the acts of operators.
type Stats struct {
	statsv1.UnimplementedStatsServiceServer
	figures Figures
	acts    audit.Store
}

var _ statsv1.StatsServiceServer = (*Stats)(nil)

// New makes a Stats that reads figures from f and the acts of operators from acts.
func New(f Figures, acts audit.Store) *Stats { return &Stats{figures: f, acts: acts} }

// GetEventStats returns zeroes for an event that does not exist: stats cannot tell.
func (s *Stats) GetEventStats(ctx context.Context, req *statsv1.GetEventStatsRequest) (*statsv1.EventStats, error) {
	counts, err := s.figures.EventCounts(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return toCounts(req.GetEventId(), counts), nil
}

// roleAdmin is the role that may see more than the public counts.
const roleAdmin = "admin"

func (s *Stats) GetEventStatsForOperators(ctx context.Context, req *statsv1.GetEventStatsForOperatorsRequest) (*statsv1.OperatorEventStats, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	counts, err := s.figures.EventCounts(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	revenue, err := s.figures.EventRevenue(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	rewards, err := s.figures.EventRewards(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	requests, err := s.figures.EventRequests(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	out := &statsv1.OperatorEventStats{
		Counts: toCounts(req.GetEventId(), counts), Rewards: toRewards(rewards), Requests: toRequests(requests),
	}
	for _, r := range revenue {
		out.Revenue = append(out.Revenue, &statsv1.Revenue{
			Currency: r.Currency, Confirmed: r.Confirmed, Refunded: r.Refunded, Net: r.Net(), Payments: r.Payments, Refunds: r.Refunds,
		})
	}
	return out, nil
}

func toCounts(eventID string, c figures.EventCounts) *statsv1.EventStats {
	return &statsv1.EventStats{
		EventId: eventID, Created: c.Created, Confirmed: c.Confirmed, Cancelled: c.Cancelled, Expired: c.Expired, Rejected: c.Rejected,
		SeatsSold: c.SeatsSold, UpdatedAt: rpc.Timestamp(c.UpdatedAt),
	}
}

func toRewards(r figures.EventRewards) *statsv1.RewardStats {
	return &statsv1.RewardStats{
		Paid: r.Paid, Failed: r.Failed, Cancelled: r.Cancelled, PointsPaid: r.PointsPaid, UpdatedAt: rpc.Timestamp(r.UpdatedAt),
	}
}

func toRequests(r figures.EventRequests) *statsv1.RequestStats {
	return &statsv1.RequestStats{Succeeded: r.Succeeded, Rejected: r.Rejected, Failed: r.Failed, UpdatedAt: rpc.Timestamp(r.UpdatedAt)}
}
