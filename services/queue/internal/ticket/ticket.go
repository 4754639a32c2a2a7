// Package ticket calls the ticket service, for event titles, settings of lines and sale statuses.
package ticket

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/batch"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
)

var (
	_ line.Directory  = (*Directory)(nil)
	_ line.SaleReader = (*Directory)(nil)

	_ line.EntitlementSource = (*Directory)(nil)
)

// Directory reads events, and changes settings of lines, at the ticket service. Visitors wait for
// titles, existence and entitlements, so the connections for these have circuit breakers.
type Directory struct {
	titles, settings ticketv1.EventServiceClient
	entitlements     ticketv1.EntitlementServiceClient
	asks             *batch.Groups[string, []line.Visitor, []bool]
}

// Option is a setting of a Directory that only tests change.
type Option func(*batch.Config)

// WithAskTimeout replaces the time limit of entitlement calls, since a busy machine may exceed it.
func WithAskTimeout(d time.Duration) Option { return func(c *batch.Config) { c.Timeout = d } }

// New makes a Directory with one connection each for titles (and existence), settings (and sale
// statuses), and entitlements.
func New(titles, settings, entitlements grpc.ClientConnInterface, opts ...Option) *Directory {
	d := &Directory{
		titles: ticketv1.NewEventServiceClient(titles), settings: ticketv1.NewEventServiceClient(settings),
		entitlements: ticketv1.NewEntitlementServiceClient(entitlements),
	}
	cfg := batch.Config{Max: maxUsersPerAsk, Inflight: maxParallelAsks, Queue: maxAsksQueued, Timeout: askTimeout}
	for _, o := range opts {
		o(&cfg)
	}
	d.asks = batch.NewGroups(cfg, maxAskingEvents, d.askTogether)
	return d
}

// Close waits for the entitlement calls in progress.
func (d *Directory) Close(ctx context.Context) error { return d.asks.Close(ctx) }

func (d *Directory) TitleAndArtist(ctx context.Context, eventID string) (line.TitleAndArtist, error) {
	res, err := d.titles.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: eventID})
	if err != nil {
		return line.TitleAndArtist{}, err
	}
	return line.TitleAndArtist{Title: res.GetTitle(), Artist: res.GetArtist()}, nil
}

// Exists returns nil if the ticket service knows the event. Visitors wait for the call, so it uses
// the connection for titles.
func (d *Directory) Exists(ctx context.Context, eventID string) error {
	_, err := d.titles.GetLineSettings(ctx, &ticketv1.GetLineSettingsRequest{EventId: eventID})
	return err
}

func (d *Directory) Settings(ctx context.Context, eventID string) (line.Settings, error) {
	res, err := d.settings.GetLineSettings(ctx, &ticketv1.GetLineSettingsRequest{EventId: eventID})
	if err != nil {
		return line.Settings{}, err
	}
	s := line.Settings{
		Slot: time.Duration(res.GetSlotSeconds()) * time.Second, Paused: res.GetPaused(), Blocked: res.GetBlockedUsers(),
		Closed: res.GetClosed(), NeverOpened: res.GetNeverOpened(), Act: res.GetAct(),
		Threshold: res.Threshold, //nolint:protogetter // absent is not zero
	}
	if at := res.GetClosesAt(); at != nil {
		s.ClosesAt = at.AsTime()
	}
	return s, nil
}

func (d *Directory) Sales(ctx context.Context, eventIDs []string) (map[string]line.SaleReport, time.Duration, error) {
	res, err := d.settings.GetSaleStatus(ctx, &ticketv1.GetSaleStatusRequest{EventIds: eventIDs})
	if err != nil {
		return nil, 0, err
	}
	found := make(map[string]line.SaleReport, len(res.GetSales()))
	for _, s := range res.GetSales() {
		found[s.GetEventId()] = line.SaleReport{Age: milliseconds(s.GetMeasuredAgoMs()), SettingsVersion: s.GetSettingsVersion(), Sale: toSale(s)}
	}
	return found, milliseconds(res.GetMeasuredAgoMs()), nil
}

func toSale(s *ticketv1.SaleStatus) line.Sale {
	sale := line.Sale{
		Status: line.ParseSaleStatus(s.GetStatus()), OpensAt: s.GetOpensAt().AsTime().UnixMilli(), ClosesAt: s.GetClosesAt().AsTime().UnixMilli(),
	}
	if at := s.GetPresaleOpensAt(); at != nil {
		sale.PresaleOpensAt = at.AsTime().UnixMilli()
	}
	return sale
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (d *Directory) ChangeSettings(ctx context.Context, eventID string, c line.SettingsChange) (later int64, err error) {
	res, err := d.settings.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{
		EventId: eventID, Threshold: c.Threshold, Paused: c.Paused, BlockUser: c.Block, UnblockUser: c.Unblock, Act: c.Act,
	})
	return res.GetLaterAct(), err
}

func (d *Directory) MarkOpened(ctx context.Context, eventID string) (first bool, err error) {
	res, err := d.settings.MarkLineOpened(ctx, &ticketv1.MarkLineOpenedRequest{EventId: eventID})
	return res.GetFirst(), err
}
