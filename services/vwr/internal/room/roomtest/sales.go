package roomtest

import (
	"context"
	"sync"

	"urr.guru/services/vwr/internal/room"
)

// Sales is a fake room.Destination. A sale has not ended unless SetAnswer says so.
type Sales struct {
	mu      sync.Mutex
	answers map[string]sale
	onQuery func(eventID string)
}

type sale struct {
	closed bool
	err    error
}

var _ room.Destination = (*Sales)(nil)

// NewSales returns a Sales in which no sale has ended.
func NewSales() *Sales { return &Sales{answers: make(map[string]sale)} }

func (s *Sales) SetAnswer(eventID string, closed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[eventID] = sale{closed, err}
}

func (s *Sales) OnQuery(fn func(eventID string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onQuery = fn
}

// Destinations returns Destinations in which s is the Destination of every kind of page.
func (s *Sales) Destinations() room.Destinations {
	return room.Destinations{room.NextQueue: s, room.NextPromo: s, room.NextReward: s}
}

func (s *Sales) Ended(_ context.Context, eventID string) (bool, error) {
	s.mu.Lock()
	onQuery := s.onQuery
	s.mu.Unlock()
	if onQuery != nil {
		onQuery(eventID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[eventID]
	return a.closed, a.err
}
