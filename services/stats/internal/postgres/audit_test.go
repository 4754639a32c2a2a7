package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/postgres"
)

// newAct returns act number n, n seconds after noon. The acts are of two users, on three events.
func newAct(n int) audit.Act {
	return audit.Act{
		ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)), At: noon.Add(time.Duration(n) * time.Second), UserID: fmt.Sprint("user-", n%2),
		Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e", EventID: fmt.Sprint("event-", n%3),
		RequestID: "r", Body: `{"threshold":5}`, BodySHA256: "5e",
	}
}

// keep stores acts, each with its outcome if it has one, and requires that nothing else was stored
// before about these outcomes.
func keep(t *testing.T, store *postgres.Store, acts ...audit.Act) {
	t.Helper()
	var ended []audit.Ended
	for _, a := range acts {
		if a.Outcome != nil {
			ended = append(ended, endOf(a))
		}
	}
	other, err := store.Keep(t.Context(), acts, ended)
	require.NoError(t, err)
	require.Zero(t, other)
}

func endOf(a audit.Act) audit.Ended {
	return audit.Ended{ActID: a.ID, Outcome: *a.Outcome, EventID: a.EventID, BodySHA256: a.BodySHA256}
}

// onlyAct returns the act that is stored.
func onlyAct(t *testing.T, store *postgres.Store) audit.Act {
	t.Helper()
	acts, err := store.List(t.Context(), audit.Filter{Limit: 2})
	require.NoError(t, err)
	require.Len(t, acts, 1)
	return acts[0]
}

func TestActs(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	var acts []audit.Act
	for n := range 12 {
		acts = append(acts, newAct(n))
	}
	acts[0].Outcome = &audit.Outcome{Status: 409, Code: "CONFLICT", At: noon.Add(time.Minute)}
	for range 2 { // a repetition changes nothing
		keep(t, store, acts...)
	}

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
	keep(t, store, acts...)
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

// The two Kafka events of an act may come in any order, together, and more than once. The act is that of
// the first, with the outcome of the second, which brings the event and the digest of some acts.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	begun := newAct(0)
	whole := begun
	whole.Outcome = &audit.Outcome{Status: 200, At: noon.Add(time.Second)}
	upload := begun
	upload.EventID, upload.Body, upload.BodySHA256 = "", "", ""
	uploaded := upload
	uploaded.EventID, uploaded.BodySHA256 = "campaign", "f1"
	uploaded.Outcome = &audit.Outcome{Status: 204, Code: "C", At: noon.Add(time.Minute), Entries: &audit.EntryCounts{Total: 5, Added: 0, Removed: 3}}
	type batch struct {
		acts, ended int // how often
	}
	for name, batches := range map[string][]batch{
		"in order": {{1, 0}, {0, 1}}, "reversed": {{0, 1}, {1, 0}}, "together": {{1, 1}}, "repeated": {{1, 0}, {0, 1}, {1, 0}, {2, 2}},
		"reversed and repeated": {{0, 2}, {0, 1}, {2, 1}, {1, 0}},
	} {
		for kind, c := range map[string]struct{ begun, want audit.Act }{"act": {begun, whole}, "upload": {upload, uploaded}} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				store, _ := setup(t)
				for _, b := range batches {
					ended := slices.Repeat([]audit.Ended{endOf(c.want)}, b.ended)
					other, err := store.Keep(t.Context(), slices.Repeat([]audit.Act{c.begun}, b.acts), ended)
					require.NoError(t, err)
					require.Zero(t, other)
				}
				require.Empty(t, cmp.Diff(c.want, onlyAct(t, store)))
			})
		}
	}
}

// An outcome whose act has not come is one without an act, and no act of anybody.
func TestOutcomeWithoutItsAct(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	a := newAct(0)
	a.Outcome = &audit.Outcome{Status: 200, At: noon.Add(time.Second)}
	_, err := store.Keep(t.Context(), nil, []audit.Ended{endOf(a)})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(audit.Act{ID: a.ID, At: a.Outcome.At, EventID: a.EventID, BodySHA256: a.BodySHA256, Outcome: a.Outcome}, onlyAct(t, store)))
}

// Whoever knows an act's id and can write to Kafka changes nothing of the act, and at most gets an
// outcome in first. Of two that differ, the second is counted.
func TestForgedOutcomes(t *testing.T) {
	t.Parallel()
	act := newAct(0)
	act.UserID = "mallory"
	genuine := audit.Ended{ActID: act.ID, EventID: act.EventID, BodySHA256: act.BodySHA256, Outcome: audit.Outcome{Status: 200, At: noon.Add(time.Second)}}
	for name, forge := range map[string]func(*audit.Ended){
		"status":  func(o *audit.Ended) { o.Status = 403 },
		"code":    func(o *audit.Ended) { o.Code = "ROLE_REQUIRED" },
		"time":    func(o *audit.Ended) { o.At = noon },
		"event":   func(o *audit.Ended) { o.EventID = "another" },
		"digest":  func(o *audit.Ended) { o.BodySHA256 = "00" },
		"entries": func(o *audit.Ended) { o.Entries = &audit.EntryCounts{} },
	} {
		forged := genuine
		forge(&forged)
		for when, batches := range map[string][][]audit.Ended{
			"later": {{genuine}, {forged}}, "at once": {{genuine, forged}}, "earlier": {{forged}, {genuine}}, "first": {{forged, genuine}},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				store, _ := setup(t)
				acts, total := []audit.Act{act}, int64(0)
				for _, ended := range batches {
					other, err := store.Keep(t.Context(), acts, ended)
					require.NoError(t, err)
					acts, total = nil, total+other
				}
				require.EqualValues(t, 1, total)
				want, kept := act, onlyAct(t, store)
				want.Outcome = &batches[0][0].Outcome
				require.Empty(t, cmp.Diff(want, kept))
			})
		}
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
				var ended []audit.Ended
				for n := range 50 {
					a := newAct((n*(r+1) + round) % 60)
					acts = append(acts, a)
					ended = append(ended, audit.Ended{ActID: a.ID, Outcome: audit.Outcome{Status: 200, At: noon}})
				}
				if other, err := store.Keep(t.Context(), acts, ended); err != nil || other != 0 {
					return fmt.Errorf("%d other outcomes: %w", other, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}
