package audit_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/stats/internal/audit"
)

func TestCursors(t *testing.T) {
	t.Parallel()
	p := audit.Position{At: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC), ID: uuid.Must(uuid.NewV7())}
	got, err := audit.ParseCursor(p.Cursor())
	require.NoError(t, err)
	require.Equal(t, p, got)
	none, err := audit.ParseCursor("")
	require.NoError(t, err)
	require.Zero(t, none)
	encoded := func(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
	for _, bad := range []string{
		"x", "1.x", encoded("."), encoded("1."), encoded("1.x"), encoded("x." + p.ID.String()), encoded("1." + p.ID.String() + "0"),
		encoded("9223372036854775807." + p.ID.String()), "{" + p.Cursor() + "}",
	} {
		_, err := audit.ParseCursor(bad)
		require.ErrorIs(t, err, errs.ErrInvalidCursor, bad)
	}
}
