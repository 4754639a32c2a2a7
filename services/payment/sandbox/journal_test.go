package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/sandbox"
)

func TestOpenDropsALineThatWasCutOff(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	l, err := sandbox.Open(file, time.Now)
	require.NoError(t, err)
	for _, order := range []string{"a", "b"} {
		_, _, err := l.Charge(sandbox.Order{OrderID: order, IdempotencyKey: order, Amount: 1}, sandbox.Captured, "")
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw[:len(raw)-10], 0o600))

	l, err = sandbox.Open(file, time.Now)
	require.NoError(t, err)
	_, found := l.Get("b")
	require.False(t, found)
	_, _, err = l.Charge(sandbox.Order{OrderID: "c", IdempotencyKey: "c", Amount: 1}, sandbox.Captured, "")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l, err = sandbox.Open(file, time.Now)
	require.NoError(t, err, "what is written behind a cut must be readable")
	charges, _ := l.All()
	require.Len(t, charges, 2)
	require.NoError(t, l.Close())
}

func TestOpenRefusesAFileThatIsNoLedger(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	require.NoError(t, os.WriteFile(file, []byte("not json\n"), 0o600))
	_, err := sandbox.Open(file, time.Now)
	require.ErrorContains(t, err, "at byte 0")
}
