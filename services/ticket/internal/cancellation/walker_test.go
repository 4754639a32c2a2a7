package cancellation_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/cancellation"
)

var errDown = errors.New("down")

// store is a fake Store with one ended event without orders. fails is the call that fails.
type store struct {
	fails  string
	leased bool
	// left has the argument moreLeft of each call of EndLease.
	left []bool
}

func (s *store) failed(what string) error {
	if s.fails == what {
		return errDown
	}
	return nil
}

func (s *store) EndCancelled(context.Context) ([]string, error) { return nil, nil }
func (s *store) Lease(context.Context, time.Duration) (cancellation.Position, bool, error) {
	s.leased = !s.leased
	return cancellation.Position{EventID: "e"}, s.leased, nil
}

func (s *store) EndLease(_ context.Context, _ cancellation.Position, left bool) error {
	s.left = append(s.left, left)
	return nil
}
func (s *store) CancelOffers(context.Context, string) error { return s.failed("offers") }
func (s *store) Orders(context.Context, cancellation.Position, int) ([]cancellation.OwedOrder, string, error) {
	return nil, "", s.failed("orders")
}
func (s *store) Refund(context.Context, cancellation.OwedOrder) error { return nil }
func (s *store) CountRemaining(context.Context) (cancellation.Remaining, error) {
	return cancellation.Remaining{}, nil
}
func (s *store) CancelWithEvent(context.Context, string, int) (int, error) {
	return 0, s.failed("holds")
}

// After a failure more may be left to do, so the event is leased again without a longer pause.
func TestFailuresAreTriedAgainSoon(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"", "holds", "offers", "orders"} {
		s := &store{fails: fails}
		w := &cancellation.Walker{Store: s, Holds: s, Log: slog.New(slog.DiscardHandler)}
		require.Equal(t, fails != "", errors.Is(w.Walk(t.Context()), errDown))
		require.Equal(t, []bool{fails != ""}, s.left, fails)
	}
}
