package csvfile_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/csvfile"
)

func TestFormulasBecomeText(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := csvfile.NewWriter(&file)
	w.Write("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x", "'=1")
	w.Write("-2", "+2.50", "12", "", "kim=1", "a@b.kr", "김하나", `say "=1"`)
	require.NoError(t, w.Flush())
	require.Contains(t, file.String(), "'=1+1,'+cmd|' /C calc'!A0,'-2+3,'@SUM(A1),")
	require.Contains(t, file.String(), "\r\n-2,+2.50,12,,kim=1,a@b.kr,김하나,\"say \"\"=1\"\"\"\r\n")

	cells, err := csv.NewReader(&file).Read()
	require.NoError(t, err)
	require.Len(t, cells, 12)
	for _, cell := range cells {
		require.Equal(t, byte('\''), cell[0], "%q", cell)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestFlushReportsFailedWrites(t *testing.T) {
	t.Parallel()
	w := csvfile.NewWriter(fullDisk{})
	w.Write("a")
	require.EqualError(t, w.Flush(), "disk full")
}
