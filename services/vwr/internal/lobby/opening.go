package lobby

import (
	"context"
	"errors"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/vwr/internal/room"
)

// maxAhead is the longest time from the opening of a lobby to the start of its room.
const maxAhead = 365 * 24 * time.Hour

// OpenLobby returns a new lobby's schedule, and the commitment to its shuffle by the current keys.
// It stores nothing. It fails without the beacon, since the lobby might never be shuffled.
func (s *Service) OpenLobby(ctx context.Context, eventID string, terms room.LobbyTerms) (room.Lobby, *room.LobbyOpening, error) {
	now := s.now()
	l, err := s.schedule.lobbyTimes(terms, now)
	if err != nil {
		return room.Lobby{}, nil, err
	}
	keys := s.keys.Load()
	if !keys.canOpenLobbies() {
		return room.Lobby{}, nil, invalidSettings("startsAt", errNoKeys.Error())
	}
	c := fairdraw.Commitment{
		Algorithm: fairdraw.AlgorithmShuffle, EventID: eventID, CutoffAt: l.ClosesAt, AnnouncedAt: l.StartsAt,
		ReceiptKey: fairdraw.Hash(keys.receipts.Public(keys.receipts.Current())),
	}
	if terms.Beacon != nil {
		c.Beacon = &fairdraw.Beacon{Chain: terms.Beacon.Chain, DelaySeconds: s.schedule.delaySeconds()}
	}
	if err := s.checkBeacon(ctx, c.Beacon, now); err != nil {
		return room.Lobby{}, nil, err
	}
	text, nonce, err := keys.Open(&c)
	if err != nil {
		return room.Lobby{}, nil, invalidSettings("beacon", err.Error())
	}
	return l, &room.LobbyOpening{Commitment: text, Nonce: nonce}, nil
}

func (s *Service) checkBeacon(ctx context.Context, b *fairdraw.Beacon, now time.Time) error {
	if b == nil {
		return nil
	}
	err := s.beacons.Check(ctx, b.Chain, now)
	switch {
	case errors.Is(err, beacon.ErrChain):
		return invalidSettings("beacon", err.Error())
	case err != nil:
		return errs.ErrBeaconUnavailable.Wrap(err)
	}
	return nil
}

func (s Schedule) lobbyTimes(terms room.LobbyTerms, now time.Time) (room.Lobby, error) {
	if terms.StartsAt.IsZero() {
		return room.Lobby{}, invalidSettings("startsAt", "is required for a lobby")
	}
	l := room.Lobby{
		OpensAt: now.UnixMilli(), StartsAt: terms.StartsAt.UnixMilli(), ClosesAt: terms.StartsAt.Add(-s.Lead).UnixMilli(),
	}
	if !terms.OpensAt.IsZero() {
		l.OpensAt = terms.OpensAt.UnixMilli()
	}
	switch {
	case l.ClosesAt <= now.UnixMilli():
		return room.Lobby{}, invalidSettings("startsAt", "must be more than "+s.Lead.String()+" ahead, which is when the lobby closes")
	case terms.StartsAt.Sub(now) > maxAhead:
		return room.Lobby{}, invalidSettings("startsAt", "must be within a year")
	case l.OpensAt >= l.ClosesAt:
		return room.Lobby{}, invalidSettings("lobbyOpensAt", "must be before the lobby closes, "+s.Lead.String()+" before startsAt")
	case l.OpensAt < 1:
		return room.Lobby{}, invalidSettings("lobbyOpensAt", "must be after 1970")
	}
	return l, nil
}

func invalidSettings(path, message string) error {
	return room.ErrInvalidSettings.WithFields(errs.Field{Path: path, Message: message})
}

func (s *Service) SameBeacon(ctx context.Context, eventID string, round room.Round, b *fairdraw.Beacon) (bool, error) {
	t, err := s.terms.get(ctx, Key{eventID, round})
	if errors.Is(err, errNoShuffle) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return t.commitment.Beacon != nil && t.commitment.Beacon.Chain == b.Chain, nil
}
