package roomtest

import (
	"context"
	"sync"

	"urr.guru/services/vwr/internal/room"
)

// Sales is a fake room.Destination. Sales are open unless SetAnswer says otherwise.
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

// NewSales returns a Sales without answers.
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

// Destinations returns s as the destination of rooms of every kind.
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
