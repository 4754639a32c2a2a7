// Package ticket asks the ticket service what events are called and how their lines are set.
package ticket

import (
	"context"
	"time"

	"google.golang.org/grpc"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
)

var _ line.Directory = (*Directory)(nil)

// Directory is the ticket service. Titles, and whether an event exists, are asked for over a connection with a circuit
// breaker: a visitor is not kept waiting for them.
type Directory struct {
	titles, settings ticketv1.EventServiceClient
}

// New uses one connection for titles and one for settings.
func New(titles, settings grpc.ClientConnInterface) *Directory {
	return &Directory{titles: ticketv1.NewEventServiceClient(titles), settings: ticketv1.NewEventServiceClient(settings)}
}

// Info implements line.Directory.
func (d *Directory) Info(ctx context.Context, eventID string) (line.Info, error) {
	res, err := d.titles.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: eventID})
	if err != nil {
		return line.Info{}, err
	}
	return line.Info{Title: res.GetTitle(), Artist: res.GetArtist()}, nil
}

// Exists implements line.Directory. Visitors wait for it, so it is the titles' connection that is asked.
func (d *Directory) Exists(ctx context.Context, eventID string) error {
	_, err := d.titles.GetLineSettings(ctx, &ticketv1.GetLineSettingsRequest{EventId: eventID})
	return err
}

// Settings implements line.Directory.
func (d *Directory) Settings(ctx context.Context, eventID string) (line.Settings, error) {
	res, err := d.settings.GetLineSettings(ctx, &ticketv1.GetLineSettingsRequest{EventId: eventID})
	if err != nil {
		return line.Settings{}, err
	}
	s := line.Settings{
		Slot: time.Duration(res.GetSlotSeconds()) * time.Second, Paused: res.GetPaused(), Blocked: res.GetBlockedUsers(),
		Threshold: res.Threshold, //nolint:protogetter // absent is not zero
	}
	if at := res.GetClosesAt(); at != nil {
		s.ClosesAt = at.AsTime()
	}
	return s, nil
}

// PutThreshold implements line.Directory.
func (d *Directory) PutThreshold(ctx context.Context, eventID string, threshold int64) error {
	_, err := d.settings.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{EventId: eventID, Threshold: &threshold})
	return err
}
