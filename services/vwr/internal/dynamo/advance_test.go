package dynamo_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/clocktest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

var epoch = time.Unix(1_800_000_000, 0)

type noLoads struct{}

func (noLoads) Load(context.Context, string) (room.Load, error) {
	return room.Load{}, errors.New("nobody there")
}

// advancing is a replica that steps when the test says so.
type advancing struct {
	*room.Advancer

	board *room.Board
}

func newAdvancing(s *dynamo.Store, clock *clocktest.Clock) advancing {
	b := room.NewBoard()
	return advancing{room.NewAdvancer(b, s, dynamo.NewClaims(s), noLoads{}, clock.Now, slog.New(slog.DiscardHandler)), b}
}

// stepTogether lets replicas read and write at once.
func stepTogether(t *testing.T, replicas ...advancing) {
	t.Helper()
	failures := make([]error, len(replicas))
	var work sync.WaitGroup
	for i, a := range replicas {
		work.Go(func() { failures[i] = a.Step(t.Context()) })
	}
	work.Wait()
	require.NoError(t, errors.Join(failures...))
}

// Three replicas that step at once advance one event on the real store: never faster than
// configured, never back, never past the last position; when the one that moves it dies, another
// goes on.
func TestAdvancersOnTheRealStore(t *testing.T) {
	t.Parallel()
	open := tables(t, dynamo.MaxPerWrite)
	watch, clock := open(tap{}), clocktest.New(epoch)
	const event, people = "advance", 180
	settings := room.Settings{Batch: 30, Interval: time.Second, Inlet: room.Periodic}
	c := roomtest.Open(t, watch, event, settings)
	roomtest.Crowd(t, watch, c, people)
	alive := []advancing{newAdvancing(open(tap{}), clock), newAdvancing(open(tap{}), clock), newAdvancing(open(tap{}), clock)}
	stepTogether(t, alive...)
	steps := 0
	for last := int64(0); last < people; steps++ {
		elapsed := clock.Advance(room.ReadEvery).Sub(epoch)
		stepTogether(t, alive...)
		got := roomtest.Read(t, watch, event)
		require.LessOrEqual(t, float64(got.Serving), settings.Rate()*elapsed.Seconds(), "after %v", elapsed)
		require.GreaterOrEqual(t, got.Serving, last, "after %v", elapsed)
		require.LessOrEqual(t, got.Serving, got.Issued, "after %v", elapsed)
		if (last < 60 && got.Serving >= 60) || (last < 90 && got.Serving >= 90) {
			alive = withoutWinner(alive)
		}
		last = got.Serving
	}
	require.Len(t, alive, 1)
	// The rate alone takes 15 steps; a takeover may cost two, as the next replica measures anew.
	require.LessOrEqual(t, steps, 15+2*2)
	stepTogether(t, alive...)
	st, ok := alive[0].board.Get(event)
	require.True(t, ok)
	require.Equal(t, int64(people), st.Serving)
	require.Positive(t, st.Rate)
	require.LessOrEqual(t, st.Rate, 1.1*settings.Rate())
}

// withoutWinner leaves out the replica that has moved the counter most often.
func withoutWinner(replicas []advancing) []advancing {
	winner := slices.MaxFunc(replicas, func(a, b advancing) int {
		return cmp.Compare(a.Stats().Won.Load(), b.Stats().Won.Load())
	})
	return slices.DeleteFunc(replicas, func(a advancing) bool { return a == winner })
}

// A replica that hangs between reading and writing for as long as it likes neither moves the
// counter back nor adds to what others did.
func TestPausedReplicaChangesNothing(t *testing.T) {
	t.Parallel()
	open := tables(t, dynamo.MaxPerWrite)
	g := newGate()
	other := open(tap{})
	c := roomtest.Open(t, other, "paused", room.DefaultSettings())
	roomtest.Crowd(t, other, c, 400)
	clock := clocktest.New(epoch)
	paused, going := newAdvancing(open(tap{before: func(in any) error {
		if claims, _ := toClaims(in); isUpdate(in) && !claims {
			g.pass()
		}
		return nil
	}}), clock), newAdvancing(other, clock)
	stepTogether(t, paused, going)
	clock.Advance(time.Second)
	var late error
	var work sync.WaitGroup
	work.Go(func() { late = paused.Step(t.Context()) })
	g.await(t) // it has read 0 and wants to write 50
	stepTogether(t, going)
	clock.Advance(time.Second)
	stepTogether(t, going)
	close(g.open)
	work.Wait()
	require.NoError(t, late)
	require.Equal(t, int64(100), roomtest.Read(t, other, c.EventID).Serving, "in 2 s at 50/s")
	require.Equal(t, int64(1), paused.Stats().Lost.Load())
	stepTogether(t, paused)
	require.Equal(t, int64(100), roomtest.Read(t, other, c.EventID).Serving, "the paused replica does not make up for its pause")
}
