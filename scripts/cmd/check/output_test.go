package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailures(t *testing.T) {
	const output = `ok  	urr.guru/pkg/a	0.1s
--- FAIL: TestPages (125.00s)
    --- FAIL: TestPages/Lobby (3.00s)
        lobby_test.go:12:
            	Error:	503 is not 200
    service.go:297: the end of vwr-0.log:
        {"level":"ERROR"}
FAIL
FAIL	urr.guru/scripts/e2e/pages	125.337s
ok  	urr.guru/scripts/harness	24.326s
WARNING: DATA RACE
Read at 0x00
ok  	urr.guru/scripts/images	0.034s
FAIL
`
	var out strings.Builder
	f := failureCollector{out: &out}
	for part := range strings.SplitAfterSeq(output, "T") { // as from a pipe, parts end anywhere in a line
		_, err := f.Write([]byte(part))
		require.NoError(t, err)
	}
	require.Equal(t, output, out.String())
	require.Equal(t, `--- FAIL: TestPages (125.00s)
    --- FAIL: TestPages/Lobby (3.00s)
        lobby_test.go:12:
            	Error:	503 is not 200
FAIL	urr.guru/scripts/e2e/pages	125.337s
WARNING: DATA RACE
Read at 0x00
`, f.String())
}

// Of a long failure, such as a goroutine dump, only linesPerFailure lines are kept.
func TestFailuresAreCut(t *testing.T) {
	f := failureCollector{out: &strings.Builder{}}
	_, err := f.Write([]byte("panic: test timed out\n" + strings.Repeat("goroutine\n", 1000)))
	require.NoError(t, err)
	require.Equal(t, linesPerFailure, strings.Count(f.String(), "\n"))
}
