package holds

import (
	"context"
	"errors"

	"urr.guru/services/ticket/internal/reservation"
)

// DecideBatch decides on requests for one event as one batch, and returns their errors.
func (s *Store) DecideBatch(ctx context.Context, reqs ...reservation.SeatsRequest) []error {
	results, err := s.holdSeats(ctx, reqs[0].EventID, reqs)
	errs := make([]error, len(reqs))
	for i := range errs {
		if errs[i] = err; err == nil {
			errs[i] = results[i].Err
			if results[i].Err == nil && results[i].Value == nil {
				errs[i] = errors.New("neither a reservation nor an error")
			}
		}
	}
	return errs
}
