// Package rpc serves the figures and the audit log by gRPC.
package rpc

import (
	"context"

	"urr.guru/pkg/rpc"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/figures"
)

// Days lists figures by day.
type Days interface {
	List(ctx context.Context, f figures.DaysFilter) (days []figures.EventDay, next string, err error)
}

var _ Days = (*figures.Days)(nil)

// Stats serves the RPCs of StatsService: figures of events, and the log of operators' acts.
type Stats struct {
	statsv1.UnimplementedStatsServiceServer
	figures figures.EventStore
	days    Days
	acts    audit.Store
}

var _ statsv1.StatsServiceServer = (*Stats)(nil)

// New makes a Stats that reads figures from f and days, and the acts of operators from acts.
func New(f figures.EventStore, days Days, acts audit.Store) *Stats {
	return &Stats{figures: f, days: days, acts: acts}
}

// GetEventStats returns zeroes for an event that does not exist: stats does not know all events.
func (s *Stats) GetEventStats(ctx context.Context, req *statsv1.GetEventStatsRequest) (*statsv1.EventStats, error) {
	f, err := s.figures.EventFigures(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return toCounts(req.GetEventId(), f), nil
}

// roleAdmin is the role that may see more than the public counts.
const roleAdmin = "admin"

func (s *Stats) GetEventStatsForOperators(ctx context.Context, req *statsv1.GetEventStatsForOperatorsRequest) (*statsv1.OperatorEventStats, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	f, err := s.figures.EventFigures(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &statsv1.OperatorEventStats{
		Counts: toCounts(req.GetEventId(), f), Rewards: toRewards(f), Requests: toRequests(f), Revenue: toRevenue(f.Figures),
		CheckedIn: f.Count(figures.CheckedIn), PaymentsDeclined: f.Count(figures.PaymentsDeclined),
		TransfersCompleted: f.Count(figures.TransfersCompleted), TransfersCancelled: f.Count(figures.TransfersCancelled),
		TransfersRejected: f.Count(figures.TransfersRejected), Comps: f.Count(figures.Comps), Voided: f.Count(figures.Voided),
	}, nil
}

func toCounts(eventID string, f figures.EventFigures) *statsv1.EventStats {
	return &statsv1.EventStats{
		EventId: eventID, Created: f.Count(figures.Created), Confirmed: f.Count(figures.Confirmed), Cancelled: f.Count(figures.Cancelled),
		Expired: f.Count(figures.Expired), Rejected: f.Count(figures.Rejected), SeatsSold: f.Count(figures.SeatsSold),
		UpdatedAt: rpc.Timestamp(f.UpdatedAt(figures.Public...)),
	}
}

func toRewards(f figures.EventFigures) *statsv1.RewardStats {
	return &statsv1.RewardStats{
		Paid: f.Count(figures.RewardsPaid), Failed: f.Count(figures.RewardsFailed), Cancelled: f.Count(figures.RewardsCancelled),
		PointsPaid: f.Count(figures.PointsPaid), Entries: f.Count(figures.Entries),
		UpdatedAt: rpc.Timestamp(f.UpdatedAt(figures.Entries, figures.RewardsPaid, figures.RewardsFailed, figures.RewardsCancelled)),
	}
}

func toRequests(f figures.EventFigures) *statsv1.RequestStats {
	return &statsv1.RequestStats{
		Succeeded: f.Count(figures.RequestsSucceeded), Rejected: f.Count(figures.RequestsRejected), Failed: f.Count(figures.RequestsFailed),
		UpdatedAt: rpc.Timestamp(f.UpdatedAt(figures.RequestsSucceeded, figures.RequestsRejected, figures.RequestsFailed)),
	}
}

func toRevenue(f figures.Figures) (out []*statsv1.Revenue) {
	for _, currency := range f.Currencies() {
		r := f.Revenue(currency)
		out = append(out, &statsv1.Revenue{
			Currency: currency, Confirmed: r.Confirmed, Refunded: r.Refunded, Net: r.Net(), Payments: r.Payments, Refunds: r.Refunds,
			ByCause: toCauses(f, currency),
		})
	}
	return out
}

func toCauses(f figures.Figures, currency string) *statsv1.MoneyByCause {
	amount := func(cause figures.Figure) int64 { return f[figures.ID{Figure: cause, Currency: currency}].Amount }
	return &statsv1.MoneyByCause{
		Sale: amount(figures.Sale), SaleRefund: amount(figures.SaleRefund), Fee: amount(figures.Fee), FeeRefund: amount(figures.FeeRefund),
		Transfer: amount(figures.Transfer), TransferPayout: amount(figures.TransferPayout), TransferReturn: amount(figures.TransferReturn),
		TransferRefund: amount(figures.TransferRefund), Membership: amount(figures.Membership), MembershipRefund: amount(figures.MembershipRefund),
	}
}
