package room_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// hanging answers when its caller has given up.
type hanging struct{}

func (hanging) Active(ctx context.Context, _ []string) ([]room.Counters, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Serve(ctx context.Context, _ room.Counters, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Load(ctx context.Context, _ string) (room.Load, error) {
	<-ctx.Done()
	return room.Load{}, ctx.Err()
}

// A store that hangs does not silence a replica for good.
func TestStepGivesUpOnAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := room.NewAdvancer(room.NewBoard(), hanging{}, hanging{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		if err := a.Step(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the step took %v", took)
		}
	})
}

// A tier 2 that hangs is one that cannot be reached: the counter goes on by the rate.
func TestLoadThatHangsIsNoLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		settings := room.DefaultSettings()
		settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 1
		c := roomtest.Open(t, m, "e", settings)
		for range 1000 {
			id := uuid.New()
			if _, err := m.Take(t.Context(), "e", c.Round, id.String(), []uuid.UUID{id}); err != nil {
				t.Fatal(err)
			}
		}
		a := room.NewAdvancer(room.NewBoard(), m, hanging{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		for time.Since(start) < 4*time.Second {
			began := time.Now()
			if err := a.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Fatalf("a step took %v: all other events wait for it", took)
			}
			time.Sleep(room.ReadEvery)
		}
		if got, most := roomtest.Read(t, m, "e").Serving, int64(50*time.Since(start).Seconds()); got < most/2 || got > most {
			t.Errorf("served %d in %v at 50/s", got, time.Since(start))
		}
		if a.Stats().Fallbacks.Load() == 0 {
			t.Error("the fallbacks are not counted")
		}
	})
}

// An event that the store holds no more is closed: nobody could get a position of it.
func TestAdvancerClosesWhatIsGone(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, room.DefaultSettings())
	h.step(0)
	h.store.Drop("e")
	h.step(0)
	if st, ok := h.boards[0].Get("e"); !ok || st.Active {
		t.Errorf("an event that is gone: %v, %+v", ok, st)
	}
}

// A store that fails for minutes is two lines in the log: when it began and when it was over.
func TestRunLogsAFailureOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		var log bytes.Buffer
		a := room.NewAdvancer(room.NewBoard(), m, hanging{}, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		m.Fail(true)
		time.Sleep(time.Minute)
		m.Fail(false)
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "counters can be read again") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}
