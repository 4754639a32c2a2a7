package audit_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/stats/internal/audit"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func recorded(n int) audit.Act {
	return audit.Act{ID: uuid.UUID{15: byte(n)}, At: noon.Add(time.Duration(n) * time.Second), UserID: "operator", Path: "/t/e", Body: "{}"}
}

// topic has acts and outcomes, each in a record of its own.
type topic struct {
	acts    []audit.Act
	ended   []audit.Ended
	refused int64
	since   time.Time
}

func (s topic) Refused() int64 { return s.refused }

func (s topic) ReadActs(_ context.Context, keep func([]audit.Act, []audit.Ended)) (time.Time, error) {
	for _, e := range s.ended[:len(s.ended)/2] { // some outcomes come first
		keep(nil, []audit.Ended{e})
	}
	keep(s.acts, nil)
	keep(nil, s.ended)
	return s.since, nil
}

// table is a store of acts.
type table []audit.Act

func (table) Keep(context.Context, []audit.Act, []audit.Ended) (int64, error) { panic("only read") }

func (s table) List(_ context.Context, f audit.Filter) ([]audit.Act, error) {
	var page []audit.Act
	for _, a := range s {
		if f.Before.At.IsZero() || a.At.Before(f.Before.At) {
			page = append(page, a)
		}
	}
	slices.SortFunc(page, func(a, b audit.Act) int { return b.At.Compare(a.At) })
	return page[:min(len(page), f.Limit)], nil
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const all = 2500
	now := noon.Add((all-10)*time.Second + 5*time.Minute) // the last ten acts are new
	build := func() (topic, table) {
		var s topic
		var stored table
		for n := range all {
			a := recorded(n)
			a.ID = uuid.UUID{14: byte(n >> 8), 15: byte(n)}
			s.acts = append(s.acts, a)
			e := audit.Ended{ActID: a.ID, Outcome: audit.Outcome{Status: 200, At: a.At.Add(time.Second)}, EventID: "e", BodySHA256: "5e"}
			s.ended = append(s.ended, e)
			a.Outcome, a.EventID, a.BodySHA256 = &audit.Outcome{Status: 200, At: e.At}, "e", "5e"
			stored = append(stored, a)
		}
		return s, stored
	}
	for name, tc := range map[string]struct {
		change func(s *topic, stored *table)
		want   string // "" if all is well
	}{
		"as recorded": {func(*topic, *table) {}, ""},
		"another user": {
			func(_ *topic, stored *table) { (*stored)[7].UserID = "innocent" }, "act 00000000-0000-0000-0000-000000000007 was changed",
		},
		"another body": {func(_ *topic, stored *table) { (*stored)[7].Body = "{ }" }, "0007 was changed"},
		"another outcome": {
			func(_ *topic, stored *table) { (*stored)[7].Outcome = &audit.Outcome{Status: 403, At: noon} }, "0007 was changed",
		},
		"no outcome":    {func(_ *topic, stored *table) { (*stored)[7].Outcome = nil }, "0007 was changed"},
		"a deleted act": {func(_ *topic, stored *table) { *stored = slices.Delete(*stored, 7, 8) }, "0007 is signed, and not stored"},
		"an invented act": {
			func(s *topic, _ *table) { s.acts, s.ended = slices.Delete(s.acts, 7, 8), slices.Delete(s.ended, 7, 8) },
			"0007 is stored, and no gateway has recorded it",
		},
		"a forged record": {func(s *topic, _ *table) { s.refused = 1 }, ""},
		"acts that are on their way": {
			func(s *topic, stored *table) {
				published, kept := recorded(99_999), recorded(99_998)
				published.ID, kept.ID = uuid.New(), uuid.New()
				s.acts, s.ended = append(s.acts, published), s.ended[:all-9]
				*stored = append((*stored)[:all-3], kept)
			}, "",
		},
		"pruned acts": {func(_ *topic, stored *table) { *stored = slices.Delete(*stored, 0, 5) }, ""},
		"a topic that forgets": {
			func(s *topic, _ *table) { s.acts, s.ended, s.since = s.acts[9:], s.ended[8:], s.acts[9].At }, "",
		},
	} {
		s, stored := build()
		tc.change(&s, &stored)
		var out strings.Builder
		err := audit.Verify(t.Context(), s, stored, now.Sub(noon)-5*time.Second, now, &out)
		if tc.want == "" {
			require.NoError(t, err, "%s: %s", name, &out)
			continue
		}
		require.ErrorIs(t, err, audit.ErrDifferent, name)
		require.Contains(t, out.String(), tc.want, name)
	}
}
