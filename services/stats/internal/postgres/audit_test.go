package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/services/stats/internal/audit"
)

// newAct returns act number n, n seconds after noon. The acts are of two users, on three events.
func newAct(n int) audit.Act {
	return audit.Act{
		ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)), At: noon.Add(time.Duration(n) * time.Second), UserID: fmt.Sprint("user-", n%2),
		Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e", EventID: fmt.Sprint("event-", n%3),
		RequestID: "r", Body: `{"threshold":5}`, BodySHA256: "5e",
	}
}

// For an act on a reward, only the Kafka event with the outcome has the EventID.
func TestEventOfAnActComesWithItsOutcome(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	began, ended := newAct(1), newAct(1)
	began.EventID, ended.EventID = "", "campaign"
	ended.Outcome = &audit.Outcome{Status: 204, At: noon.Add(time.Minute)}
	require.NoError(t, store.Keep(t.Context(), []audit.Act{began}))
	require.NoError(t, store.Keep(t.Context(), []audit.Act{ended}))
	acts, err := store.List(t.Context(), audit.Filter{EventID: "campaign", Limit: 2})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]audit.Act{ended}, acts))
}

func TestActs(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	var acts []audit.Act
	for n := range 12 {
		acts = append(acts, newAct(n))
	}
	acts[0].Outcome = &audit.Outcome{Status: 409, Code: "CONFLICT", At: noon.Add(time.Minute)}
	require.NoError(t, store.Keep(t.Context(), audit.Merge(acts)))
	require.NoError(t, store.Keep(t.Context(), audit.Merge(acts)), "a repetition changes nothing")

	list := func(f audit.Filter) (numbers []int) {
		t.Helper()
		for {
			page, next, err := audit.ReadPage(t.Context(), store, f)
			require.NoError(t, err)
			for _, a := range page {
				numbers = append(numbers, int(a.At.Sub(noon)/time.Second))
				require.Empty(t, cmp.Diff(acts[numbers[len(numbers)-1]], a))
			}
			if next == "" {
				return numbers
			}
			f.Before, err = audit.ParseCursor(next)
			require.NoError(t, err)
		}
	}
	require.Equal(t, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, list(audit.Filter{Limit: 5}))
	require.Equal(t, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, list(audit.Filter{}))
	require.Equal(t, []int{9, 6, 3, 0}, list(audit.Filter{EventID: "event-0", Limit: 2}))
	require.Equal(t, []int{9, 3}, list(audit.Filter{EventID: "event-0", UserID: "user-1", Limit: 1}))
	require.Equal(t, []int{7, 6, 5}, list(audit.Filter{From: noon.Add(5 * time.Second), To: noon.Add(8 * time.Second), Limit: 2}))
	require.Empty(t, list(audit.Filter{UserID: "nobody"}))

	n, err := store.PruneActs(t.Context(), noon.Add(10*time.Second))
	require.NoError(t, err)
	require.EqualValues(t, 10, n)
	require.Equal(t, []int{11, 10}, list(audit.Filter{}))
}

// Acts of the same time are sorted by id, so that a page that ends between them loses none.
func TestActsOfOneMoment(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	seen := map[uuid.UUID]bool{}
	var acts []audit.Act
	for n := range 7 {
		a := newAct(n)
		a.At = noon
		acts = append(acts, a)
	}
	require.NoError(t, store.Keep(t.Context(), audit.Merge(acts)))
	for f := (audit.Filter{Limit: 2}); ; {
		page, next, err := audit.ReadPage(t.Context(), store, f)
		require.NoError(t, err)
		for _, a := range page {
			require.False(t, seen[a.ID])
			seen[a.ID] = true
		}
		if next == "" {
			break
		}
		f.Before, err = audit.ParseCursor(next)
		require.NoError(t, err)
	}
	require.Len(t, seen, len(acts))
}

// The two Kafka events of an act may come in any order or together. The first outcome is kept.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	outcome := &audit.Outcome{Status: 200, At: noon.Add(time.Second)}
	begun, ended := newAct(0), newAct(0)
	ended.Outcome = outcome
	for name, batches := range map[string][][]audit.Act{
		"in order": {{begun}, {ended}}, "reversed": {{ended}, {begun}}, "together": {{begun, ended}}, "together reversed": {{ended, begun, ended}},
		"repeated": {{begun}, {ended}, {begun}, {ended}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := setup(t)
			for _, b := range batches {
				require.NoError(t, store.Keep(t.Context(), audit.Merge(b)))
			}
			late := newAct(0)
			late.Outcome = &audit.Outcome{Status: 500, Code: "INTERNAL", At: noon.Add(time.Hour)}
			require.NoError(t, store.Keep(t.Context(), []audit.Act{late}))
			acts, err := store.List(t.Context(), audit.Filter{Limit: 10})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff([]audit.Act{ended}, acts))
		})
	}
}

// Replicas that store the same acts at the same time do not deadlock.
func TestConcurrentKeeping(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	var all errgroup.Group
	for r := range 8 {
		all.Go(func() error {
			for round := range 10 {
				var acts []audit.Act
				for n := range 50 {
					a := newAct((n*(r+1) + round) % 60)
					if r%2 == 0 {
						a.Outcome = &audit.Outcome{Status: 200, At: noon}
					}
					acts = append(acts, a)
				}
				if err := store.Keep(t.Context(), audit.Merge(acts)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}
