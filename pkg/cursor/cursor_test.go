package cursor_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
)

func TestKeysComeBack(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0192f0c1-2345-7abc-8def-0123456789ab")
	gotID, err := cursor.ParseID(cursor.ID(id))
	require.NoError(t, err)
	require.Equal(t, id, gotID)

	text, err := cursor.ParseText(cursor.Text("QAT#17#é"), "QAT#")
	require.NoError(t, err)
	require.Equal(t, "QAT#17#é", text)

	n, err := cursor.ParseNumber(cursor.Number(23))
	require.NoError(t, err)
	require.Equal(t, int64(23), n)

	for _, at := range []time.Time{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	} {
		got, event, err := cursor.ParseMoment(cursor.Moment(at, "e-1"), ids.ValidEventID)
		require.NoError(t, err)
		require.Equal(t, at, got)
		require.Equal(t, "e-1", event)
	}
}

func TestFirstPage(t *testing.T) {
	t.Parallel()
	require.Empty(t, cursor.ID(uuid.Nil))
	require.Empty(t, cursor.Number(0))
	id, err := cursor.ParseID("")
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, id)
	n, err := cursor.ParseNumber("")
	require.NoError(t, err)
	require.Zero(t, n)
	text, err := cursor.ParseText("", "QAT#")
	require.NoError(t, err)
	require.Empty(t, text)
	at, event, err := cursor.ParseMoment("", ids.ValidEventID)
	require.NoError(t, err)
	require.Zero(t, at)
	require.Empty(t, event)
}

// TestInventedCursors has keys that stores refuse, so that a list of them would be an internal error.
func TestInventedCursors(t *testing.T) {
	t.Parallel()
	encoded := func(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
	number := func(s string) error { _, err := cursor.ParseNumber(s); return err }
	id := func(s string) error { _, err := cursor.ParseID(s); return err }
	text := func(s string) error { _, err := cursor.ParseText(s, "QAT#"); return err }
	moment := func(s string) error { _, _, err := cursor.ParseMoment(s, ids.ValidEventID); return err }
	for name, tc := range map[string]struct {
		parse  func(string) error
		cursor string
	}{
		"no base64":             {id, "not a cursor"},
		"padding":               {id, base64.URLEncoding.EncodeToString(make([]byte, 16))},
		"bits that nobody made": {text, encoded("QAT#")[:5] + "R"},
		"a short id":            {id, encoded("short")},
		"no id":                 {id, encoded(strings.Repeat("\x00", 16))},
		"too long":              {text, encoded("QAT#" + strings.Repeat("x", 6000))},
		"another prefix":        {text, encoded("PK#1")},
		"a NUL":                 {text, encoded("QAT#\x00")},
		"half a rune":           {text, encoded("QAT#\xff")},
		"no number":             {number, "x"},
		"a negative number":     {number, "-1"},
		"zero":                  {number, "0"},
		"a great number":        {number, "9223372036854775808"},
		"before year 1":         {moment, encoded("-400000000000000000.e-1")},
		"after year 9999":       {moment, encoded("253402300800000000.e-1")},
		"no time":               {moment, encoded("x.e-1")},
		"a moment without id":   {moment, encoded("17")},
		"another id":            {moment, encoded("17.e 1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, tc.parse(tc.cursor), errs.ErrInvalidCursor)
		})
	}
}
