package ids_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/ids"
)

func TestForms(t *testing.T) {
	t.Parallel()
	forms := map[string]struct {
		is        func(string) bool
		good, bad []string
	}{
		"event": {
			ids.ValidEventID,
			[]string{"a", "demo", "IU-2026_seoul", "0", strings.Repeat("x", 64)},
			[]string{"", strings.Repeat("x", 65), "a b", "a:b", "a#b", "{a}", "a/b", "é", "a.b", "a\n"},
		},
		"user": {
			ids.ValidUser,
			[]string{"u", "a.b+c@d-e_f", strings.Repeat("9", 63)},
			[]string{"", strings.Repeat("9", 64), "a b", "a:b", "a#b", "user{1}", "한", "a/b", "a\x00"},
		},
		"seat": {
			ids.ValidSeat,
			[]string{"A-1-1", "VIP_2-AA-99999", "S1-R1-10"},
			[]string{"", "A", "A-1", "A-1-", "A--1", "-1-1", "A-1-0", "A-1-01", "A-1-100000", "A-1-1-1", "A-1-x", "A-1- 1", "A-1-+1", "é-1-1", strings.Repeat("A", 21) + "-1-1"},
		},
		"uuid": {
			ids.ValidUUID,
			[]string{"018f2b5e-7b1a-7c3d-8e4f-0123456789ab"},
			[]string{"", "018F2B5E-7B1A-7C3D-8E4F-0123456789AB", "{018f2b5e-7b1a-7c3d-8e4f-0123456789ab}", "018f2b5e7b1a7c3d8e4f0123456789ab", "urn:uuid:018f2b5e-7b1a-7c3d-8e4f-0123456789ab"},
		},
	}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range f.good {
				require.True(t, f.is(s), "%q", s)
			}
			for _, s := range f.bad {
				require.False(t, f.is(s), "%q", s)
			}
		})
	}
}

func TestSplitSeat(t *testing.T) {
	t.Parallel()
	section, row, number, ok := ids.SplitSeat("VIP-12-345")
	require.True(t, ok)
	require.Equal(t, "VIP", section)
	require.Equal(t, "12", row)
	require.Equal(t, 345, number)
}

// Two different seats must never have the same id.
func FuzzSeatIDsAreUnambiguous(f *testing.F) {
	f.Add("A", "1", 1)
	f.Add("A-1", "1", 1)
	f.Fuzz(func(t *testing.T, section, row string, number int) {
		if !ids.ValidSectionOrRow(section) || !ids.ValidSectionOrRow(row) || number < 1 || number > 99999 {
			t.Skip()
		}
		s, r, n, ok := ids.SplitSeat(section + "-" + row + "-" + strconv.Itoa(number))
		require.True(t, ok)
		require.Equal(t, []any{section, row, number}, []any{s, r, n})
	})
}

func TestNewV7SortsByTime(t *testing.T) {
	t.Parallel()
	last := ids.NewV7().String()
	for range 1000 {
		next := ids.NewV7().String()
		require.Greater(t, next, last)
		require.True(t, ids.ValidUUID(next))
		last = next
	}
}
