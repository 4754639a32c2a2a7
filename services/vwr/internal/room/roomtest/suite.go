package roomtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/room"
)

// Suite tests a store. It calls replica at least twice, to get stores that share their data.
func Suite(t *testing.T, replica func(t *testing.T) Store) {
	t.Helper()
	a, b := replica(t), replica(t)
	t.Run("rounds", func(t *testing.T) { testRounds(t, a, b) })
	t.Run("serving", func(t *testing.T) { testServing(t, a, b) })
	t.Run("same position at two replicas", func(t *testing.T) { testSamePosition(t, a, b) })
	t.Run("unique and increasing", func(t *testing.T) { testUniquePositions(t, a, b) })
	t.Run("other round", func(t *testing.T) { testOtherRound(t, a) })
}

// StartRound starts the first round of an event.
func StartRound(t *testing.T, s Store, eventID string, settings room.Settings) room.Counters {
	t.Helper()
	c := room.Counters{EventID: eventID, Active: true, Round: 1_700_000_000_000_000, Settings: settings}
	require.NoError(t, s.Start(t.Context(), c, 0, nil))
	return Read(t, s, eventID)
}

// Read returns the stored state of an event.
func Read(t *testing.T, s Store, eventID string) room.Counters {
	t.Helper()
	c, found, err := s.Read(t.Context(), eventID)
	require.NoError(t, err)
	require.True(t, found, eventID)
	return c
}

// Take gets a position for one visitor.
func Take(ctx context.Context, s room.PositionStore, c room.Counters, visitor string, ids ...uuid.UUID) (room.Record, error) {
	got := s.TakePositions(ctx, c, []room.Taker{{Visitor: visitor, IDs: ids}})[0]
	return got.Value, got.Err
}

// Assign gets the position of one caller from the service.
func Assign(ctx context.Context, s *room.Service, eventID string, caller room.VisitorIDs) (room.AssignResult, error) {
	got := s.Assign(ctx, eventID, []room.VisitorIDs{caller})[0]
	return got.Value, got.Err
}

// TakeWithRetry gets a position as a page does: it retries while the store is unavailable or
// overloaded. Any goroutine of the test may call it.
func TakeWithRetry(t *testing.T, s Store, c room.Counters, id uuid.UUID) (r room.Record, err error) {
	t.Helper()
	testkit.UntilNoError(t, func() error {
		r, err = Take(t.Context(), s, c, id.String(), id)
		if errors.Is(err, room.ErrUnavailable) || errors.Is(err, errs.ErrOverloaded) {
			return err
		}
		return nil
	}, "a position")
	return r, err
}

// TakeMany gets positions for n new visitors concurrently.
func TakeMany(t *testing.T, s Store, c room.Counters, n int) []room.Record {
	t.Helper()
	records, failures := make([]room.Record, n), make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { records[i], failures[i] = TakeWithRetry(t, s, c, uuid.New()) })
	}
	work.Wait()
	require.NoError(t, errors.Join(failures...))
	return records
}

func requireStale(t *testing.T, attempt string, err error) {
	t.Helper()
	require.ErrorIs(t, err, room.ErrStale, attempt)
}

// readActive returns an event from the result of ReadActive; ok is false if it is missing there.
func readActive(t *testing.T, s Store, eventID string, also ...string) (c room.Counters, ok bool) {
	t.Helper()
	cs, err := s.ReadActive(t.Context(), also)
	require.NoError(t, err)
	i := slices.IndexFunc(cs, func(c room.Counters) bool { return c.EventID == eventID })
	if i < 0 {
		return room.Counters{}, false
	}
	return cs[i], true
}

// requireListed checks that the registry of active events has an event (want), or does not have it.
func requireListed(t *testing.T, want bool, s Store, eventID, message string) {
	t.Helper()
	_, ok := readActive(t, s, eventID)
	require.Equal(t, want, ok, message)
}

func testRounds(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "rounds"
	_, found, err := a.Read(ctx, event)
	require.NoError(t, err)
	require.False(t, found, "an event without a room")
	settings := room.Settings{Batch: 7, Interval: 3 * time.Second, Inlet: room.MaxInFlight, MaxInFlight: 9, ProofOfWork: 18, SignIn: true, Next: room.NextPromo, Expected: 5000, AskRate: 700}
	c := StartRound(t, a, event, settings)
	require.True(t, c.Active)
	require.Equal(t, settings, c.Settings)
	require.Zero(t, c.Issued)
	require.False(t, c.UpdatedAt.IsZero())
	requireListed(t, true, b, event, "another replica finds the round in the registry")
	requireStale(t, "starting an active event", b.Start(ctx, room.Counters{EventID: event, Active: true, Round: c.Round + 1}, c.Round, nil))
	requireStale(t, "configuring another round", b.Configure(ctx, event, c.Round+1, settings))
	requireStale(t, "stopping another round", b.Stop(ctx, event, c.Round+1))
	requireListed(t, true, b, event, "a stop that failed leaves the event in the registry")
	_, err = Take(ctx, a, c, "v", uuid.New())
	require.NoError(t, err)
	settings.Batch, settings.ProofOfWork, settings.SignIn, settings.Next = 8, 0, false, room.NextReward
	require.NoError(t, b.Configure(ctx, event, c.Round, settings))
	c = Read(t, a, event)
	require.Equal(t, settings, c.Settings, "after the change")
	require.Equal(t, int64(1), c.Issued, "after the change")
	require.NoError(t, b.Stop(ctx, event, c.Round))
	requireListed(t, false, a, event, "a stopped event leaves the registry")
	stopped, ok := readActive(t, a, event, event)
	require.True(t, ok, "a stopped event that was asked for")
	require.False(t, stopped.Active)
	requireStale(t, "starting with the wrong earlier round", a.Start(ctx, room.Counters{EventID: event, Active: true, Round: c.Round + 2}, 0, nil))
	requireListed(t, false, a, event, "a start that failed does not enter the event in the registry")
	next := room.Counters{EventID: event, Active: true, Round: c.Round + 2, Settings: settings}
	require.NoError(t, a.Start(ctx, next, c.Round, nil))
	second := Read(t, b, event)
	require.True(t, second.Active)
	require.Equal(t, next.Round, second.Round)
	require.Zero(t, second.Issued)
}

func testServing(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "serving"
	c := StartRound(t, a, event, room.DefaultSettings())
	for range 5 {
		_, err := Take(ctx, a, c, "v", uuid.New())
		require.NoError(t, err)
	}
	requireStale(t, "past the last position", a.SetServing(ctx, c, 6))
	require.NoError(t, a.SetServing(ctx, c, 3))
	requireStale(t, "from a value that is gone", b.SetServing(ctx, c, 4))
	other := Read(t, b, event)
	other.Round++
	requireStale(t, "in another round", b.SetServing(ctx, other, 4))
	require.NoError(t, a.Stop(ctx, event, c.Round))
	requireStale(t, "in a closed room", b.SetServing(ctx, Read(t, b, event), 4))
	require.Equal(t, int64(3), Read(t, a, event).Serving)
}

func testSamePosition(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "same"
	c := StartRound(t, a, event, room.DefaultSettings())
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	first, err := Take(ctx, a, c, "v", ids[1:]...)
	require.NoError(t, err)
	again, err := Take(ctx, b, c, "v", ids...) // the second id belongs to an older key
	require.NoError(t, err)
	require.Equal(t, first, again)
	found, ok, err := b.FindRecord(ctx, c, ids[1])
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, first, found)
	_, ok, err = b.FindRecord(ctx, c, uuid.New())
	require.NoError(t, err)
	require.False(t, ok, "an unknown id")
	require.Equal(t, int64(1), Read(t, a, event).Issued)
}

// testUniquePositions has many visitors call two replicas at once, some twice (a double click).
func testUniquePositions(t *testing.T, a, b Store) {
	t.Helper()
	const event, visitors = "unique", 150
	c := StartRound(t, a, event, room.DefaultSettings())
	var (
		got      [2][visitors]room.Record
		failures [2][visitors]error
		work     sync.WaitGroup
	)
	for i := range visitors {
		id := uuid.New()
		for click, s := range []Store{a, b} {
			work.Go(func() { got[click][i], failures[click][i] = TakeWithRetry(t, s, c, id) })
		}
	}
	work.Wait()
	require.NoError(t, errors.Join(append(failures[0][:], failures[1][:]...)...))
	issued := Read(t, a, event).Issued
	seen := make(map[int64]bool)
	for i, r := range got[0] {
		require.Equal(t, r, got[1][i], "both clicks of a visitor")
		require.False(t, seen[r.Position], "position %d twice", r.Position)
		require.Positive(t, r.Position)
		require.LessOrEqual(t, r.Position, issued)
		seen[r.Position] = true
	}
	late, err := Take(t.Context(), b, c, "late", uuid.New())
	require.NoError(t, err)
	require.Equal(t, issued+1, late.Position, "who comes later")
}

func testOtherRound(t *testing.T, s Store) {
	t.Helper()
	const event = "other-round"
	_, err := Take(t.Context(), s, room.Counters{EventID: event, Round: 1}, "v", uuid.New())
	requireStale(t, "no room", err)
	c := StartRound(t, s, event, room.DefaultSettings())
	earlier := c
	earlier.Round--
	_, err = Take(t.Context(), s, earlier, "v", uuid.New())
	requireStale(t, "an earlier round", err)
	require.NoError(t, s.Stop(t.Context(), event, c.Round))
	_, err = Take(t.Context(), s, c, "v", uuid.New())
	requireStale(t, "a closed room", err)
}
