package lobby

import (
	"context"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

// maxRounds is the most lobbies in one answer of ListLobbies.
const maxRounds = 100

// What ListLobbies reads is used for listFor; anybody may ask for any page, of which maxLists are kept.
const (
	listFor  = time.Second
	maxLists = 100
)

// LobbySummary describes one lobby in the list of an event's lobbies.
type LobbySummary struct {
	Round              room.Round
	Phase              fairdraw.Phase
	ClosesAt, StartsAt int64         // ms since the epoch
	Commitment         fairdraw.Hash // every receipt of the lobby contains it
	Entries            *int64        // nil before the root is public
}

// ListLobbies lists the lobbies of an event, the latest first: at most maxRounds that are earlier
// than before (0: all), as they were up to a second ago. next is the argument for the next page; 0 at
// the end. Abandoned lobbies are listed too, so that an operator cannot secretly repeat shuffles until
// one suits.
func (s *Service) ListLobbies(ctx context.Context, eventID string, before room.Round) (list []LobbySummary, next room.Round, err error) {
	shuffles, err := s.lists.Get(ctx, Key{eventID, before})
	if err != nil {
		return nil, 0, err
	}
	now := s.now()
	for i := range shuffles {
		sh := &shuffles[i]
		t, err := parseTerms(sh)
		if err != nil {
			return nil, 0, room.ErrUnavailable.Wrap(err)
		}
		c := &t.commitment
		entry := LobbySummary{
			Round: sh.Round, Phase: phaseOf(sh, t, now), ClosesAt: c.CutoffAt, StartsAt: c.AnnouncedAt, Commitment: t.hash,
		}
		if sh.Signature != "" {
			st, err := fairdraw.ParseStatement([]byte(sh.Statement))
			if err != nil {
				return nil, 0, room.ErrUnavailable.Wrap(err)
			}
			entry.Entries = &st.Count
		}
		list = append(list, entry)
	}
	if len(list) == maxRounds {
		next = list[maxRounds-1].Round
	}
	return list, next, nil
}
