package event

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

// catalogue is a fake Reader that lists the events e0, e1, … in this order. Each read takes a
// second.
type catalogue struct {
	Reader

	events int
	err    error

	mu                  sync.Mutex
	counted             map[string]int
	running, maxRunning int
}

func (c *catalogue) read(ctx context.Context) error {
	c.mu.Lock()
	c.running++
	c.maxRunning = max(c.maxRunning, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}()
	select {
	case <-time.After(time.Second):
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *catalogue) ListEvents(ctx context.Context, limit int, after *Cursor) (Page, error) {
	first := 0
	if after != nil {
		_, _ = fmt.Sscanf(after.ID, "e%d", &first)
		first++
	}
	p := Page{At: time.Now()}
	for i := first; i < min(first+limit, c.events); i++ {
		p.Events = append(p.Events, Event{ID: fmt.Sprintf("e%d", i), Version: 1, Spec: Spec{Sections: []Section{{Name: "A", Capacity: 10}}}})
	}
	return p, c.read(ctx)
}

func (c *catalogue) CountTaken(ctx context.Context, id string, _ Seating) (Counts, error) {
	c.mu.Lock()
	if c.counted == nil {
		c.counted = make(map[string]int)
	}
	c.counted[id]++
	c.mu.Unlock()
	return Counts{"A": {Taken: 3}}, c.read(ctx)
}

func TestListCountsOnlyItsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &catalogue{events: 5}
		s := NewService(c, nil, nil)
		page, next, err := s.List(t.Context(), 2, Cursor{})
		require.NoError(t, err)
		require.Equal(t, "e1", next.ID)
		require.Equal(t, []int64{7}, page[1].Free)
		require.Empty(t, cmp.Diff(map[string]int{"e0": 1, "e1": 1}, c.counted), "not the first of the next page")

		_, _, err = s.List(t.Context(), 3, Cursor{})
		require.NoError(t, err)
		page, next, err = s.List(t.Context(), 3, Cursor{ID: "e1"})
		require.NoError(t, err)
		require.Len(t, page, 3)
		require.Nil(t, next)
		require.Empty(t, cmp.Diff(map[string]int{"e0": 1, "e1": 1, "e2": 1, "e3": 1, "e4": 1}, c.counted), "each once, on whatever page")

		time.Sleep(countAge)
		_, _, err = s.List(t.Context(), 1, Cursor{})
		require.NoError(t, err)
		require.Equal(t, 2, c.counted["e0"])
	})
}

// However many pages are requested, at most four reads run at once, and requests are refused when
// too many wait already.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &catalogue{events: 10}
		s := NewService(c, nil, nil)
		const crowd = listLoads + listQueue + 100
		results := make(chan error, crowd)
		for i := range crowd {
			go func() {
				_, _, err := s.List(t.Context(), 2, Cursor{ID: fmt.Sprintf("e%d", 100+i)})
				results <- err
			}()
		}
		refused, timedOut := 0, 0
		for range crowd {
			switch err := <-results; {
			case errors.Is(err, errs.ErrOverloaded):
				refused++
			case errors.Is(err, context.DeadlineExceeded):
				timedOut++
			default:
				require.NoError(t, err)
			}
		}
		require.Equal(t, 100, refused)
		require.Positive(t, timedOut, "nobody waits for longer than a read may take")
		require.Equal(t, listLoads, c.maxRunning)
	})
}

func TestListFailsWhenACountFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &catalogue{events: 3}
		s := NewService(c, nil, nil)
		_, _, err := s.List(t.Context(), 3, Cursor{})
		require.NoError(t, err)
		time.Sleep(countAge)
		c.err = errors.New("away")
		_, _, err = s.List(t.Context(), 3, Cursor{})
		require.ErrorIs(t, err, c.err)
		c.err = nil
		_, _, err = s.List(t.Context(), 3, Cursor{})
		require.NoError(t, err)
	})
}
