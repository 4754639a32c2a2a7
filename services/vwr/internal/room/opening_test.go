package room_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/room"
)

// The crowd is the expected one, or the lobby's entries where these are more. A crowd of a second's
// requests is not spread.
func TestOpening(t *testing.T) {
	t.Parallel()
	starts := epoch.Add(time.Hour)
	for _, tt := range []struct {
		expected, entries int64
		over              time.Duration
	}{
		{0, 0, 0}, {1000, 0, 0}, {60_000, 0, time.Minute}, {0, 30_000, 30 * time.Second}, {60_000, 30_000, time.Minute}, {10, 90_000, 90 * time.Second},
		{0, 600_000, 10 * time.Minute}, {0, 900_000, 10 * time.Minute},
	} {
		c := counters(0, 0)
		c.Round, c.Settings.Expected = room.Round(epoch.UnixMicro()), tt.expected
		require.Equal(t, epoch.UnixMilli(), c.Opening().Start.UnixMilli(), "without a lobby the round's own start")
		c.Lobby = room.Lobby{StartsAt: starts.UnixMilli(), Entries: tt.entries}
		got := c.Opening()
		require.Equal(t, starts.UnixMilli(), got.Start.UnixMilli())
		require.Equal(t, tt.over, got.Over, "%+v", tt)
	}
}

// A room whose crowd would ask for more than ten minutes is refused, and the error says what would
// do.
func TestAskRateOfTheExpected(t *testing.T) {
	t.Parallel()
	change := room.SettingsChange{Expected: new(int64(600_000))}
	_, err := room.DefaultSettings().With(change)
	require.NoError(t, err)
	change.Expected = new(int64(1_000_000))
	_, err = room.DefaultSettings().With(change)
	require.ErrorIs(t, err, room.ErrInvalidSettings)
	field := errs.From(err).Fields[0]
	require.Equal(t, "askRate", field.Path)
	require.Contains(t, field.Message, "at least 1667,")
	change.AskRate = new(int64(1667))
	_, err = room.DefaultSettings().With(change)
	require.NoError(t, err)
}

// While the entrants of a lobby ask, an operator's advance is refused and told until when. A higher
// askRate ends that. Once the counter may move, no change of the spread stops it.
func TestAdvanceAfterALobby(t *testing.T) {
	t.Parallel()
	m, d := newReplicas(t, 1)
	c := counters(600_000, 0)
	began := epoch.Add(-5 * time.Minute).UnixMilli() // half of the spread
	c.Lobby = room.Lobby{StartsAt: began, Sized: true, Shuffled: true, Entries: 600_000, ShuffledAt: began}
	require.NoError(t, m.Start(t.Context(), c, 0, nil))
	change := func(expected, askRate int64) error {
		_, err := d[0].Activate(t.Context(), "e", room.SettingsChange{Expected: &expected, AskRate: &askRate})
		return err
	}
	refused := func() *errs.Error {
		_, err := d[0].Advance(t.Context(), "e", 1)
		require.ErrorIs(t, err, room.ErrLobbyOpen)
		return errs.From(err)
	}
	require.Equal(t, 5*time.Minute, refused().RetryAfter)
	require.Equal(t, strconv.FormatInt(epoch.Add(5*time.Minute).UnixMilli(), 10), refused().Metadata["servesAt"])
	require.NoError(t, change(700_000, 1200))
	require.Equal(t, 283*time.Second, refused().RetryAfter.Truncate(time.Second))
	require.NoError(t, change(0, 2000))
	require.Equal(t, int64(1), d[0].advance(t, 1).Serving)
	require.ErrorIs(t, change(1_000_000, 2000), room.ErrInvalidSettings)
	require.ErrorIs(t, change(0, 1000), room.ErrInvalidSettings)
	require.NoError(t, change(0, 3000))
	require.Equal(t, int64(2), d[0].advance(t, 1).Serving)
}

// fixedRooms has one room, whose counter it moves.
type fixedRooms struct{ room.Counters }

func (f *fixedRooms) ReadActive(context.Context, []string) ([]room.Counters, error) {
	return []room.Counters{f.Counters}, nil
}

func (f *fixedRooms) SetServing(_ context.Context, _ room.Counters, to int64) error {
	f.Serving = to
	return nil
}

func (f *fixedRooms) Claimed(context.Context, string, room.Round) (int64, error) { return 0, nil }

// After a lobby the counter first moves when everybody has had the time to ask for the position: when
// the spread is over, or later after a late shuffle. A small crowd is not waited for.
func TestCounterMovesAfterTheSpread(t *testing.T) {
	t.Parallel()
	const minute = 60_000 // entries that ask within a minute
	for _, tt := range []struct {
		entries    int64
		shuffledAt time.Duration // after the start
		moves      time.Duration
	}{
		{500, 0, 0}, {500, 40 * time.Second, 40 * time.Second},
		{minute, 0, time.Minute}, {minute, 10 * time.Second, time.Minute}, {minute, 30 * time.Second, 123 * time.Second},
		{minute, 10 * time.Minute, 12 * time.Minute},
	} {
		starts := epoch.Add(time.Hour)
		rooms := &fixedRooms{counters(100_000, 0)}
		rooms.Lobby = room.Lobby{StartsAt: starts.UnixMilli(), Sized: true, Entries: tt.entries}
		clock := testkit.NewClock(starts.Add(-time.Second))
		a := room.NewAdvancer(room.NewStateCache(), rooms, rooms, nil, clock.Now, slog.New(slog.DiscardHandler))
		moved := time.Duration(-1)
		for after := -time.Second; after < 15*time.Minute && moved < 0; after += time.Second {
			clock.Set(starts.Add(after))
			if after >= tt.shuffledAt {
				rooms.Lobby.Shuffled, rooms.Lobby.ShuffledAt = true, starts.Add(tt.shuffledAt).UnixMilli()
			}
			require.NoError(t, a.Step(t.Context()))
			if rooms.Serving > 0 {
				moved = after
			}
		}
		// The first step measures, the second one moves.
		require.Equal(t, tt.moves+time.Second, moved, "%+v", tt)
	}
}
