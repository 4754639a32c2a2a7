package roomtest

import (
	"context"
	"sync"

	"urr.guru/services/vwr/internal/room"
)

// Sales are events whose sales go on, unless it is told otherwise.
type Sales struct {
	mu      sync.Mutex
	answers map[string]sale
	asked   func(eventID string)
}

type sale struct {
	closed bool
	err    error
}

var _ room.Sales = (*Sales)(nil)

// NewSales makes Sales.
func NewSales() *Sales { return &Sales{answers: make(map[string]sale)} }

// Answer is what it says of an event from now on.
func (s *Sales) Answer(eventID string, closed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[eventID] = sale{closed, err}
}

// Asked is called with each question, before the answer.
func (s *Sales) Asked(fn func(eventID string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = fn
}

// Closed implements room.Sales.
func (s *Sales) Closed(_ context.Context, eventID string) (bool, error) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	if asked != nil {
		asked(eventID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[eventID]
	return a.closed, a.err
}
