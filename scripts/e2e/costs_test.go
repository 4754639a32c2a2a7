package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// declared is a line of the table of routes that says what a public read costs.
var declared = regexp.MustCompile(`(?m)^GET +(\S+) +.*  \[(.*); cached: (.*); limit: .*\]$`)

// TestDeclaredCosts asks each public route twice within a second for something made up, and compares
// the reads of DynamoDB about it with what the route declares: none, or the same for two as for one. (Of
// PostgreSQL there is no such count.)
func TestDeclaredCosts(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../services/gateway/internal/app/testdata/routes.txt")
	require.NoError(t, err)
	p := harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.VWR, platform.Ingest, platform.Worker, platform.Gateway}, AWS: true,
	})
	var madeUp atomic.Value
	var reads atomic.Int64
	p.DynamoDB().Use(func(c awsproxy.Call) awsproxy.Fault {
		if id, _ := madeUp.Load().(string); id != "" && bytes.Contains(c.Body, []byte(id)) {
			reads.Add(1)
		}
		return awsproxy.Fault{}
	})
	ask := func(path string) int64 {
		t.Helper()
		_, err := p.Visitor().Call(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		return reads.Load()
	}
	routes := declared.FindAllStringSubmatch(string(table), -1)
	require.NotEmpty(t, routes)
	for _, route := range routes {
		pattern, cost, cached := route[1], route[2], route[3]
		for began := (time.Time{}); time.Since(began) > 900*time.Millisecond; { // both within a second
			id := uuid.NewString()
			path := strings.NewReplacer("{event_id}", id, "{request_id}", uuid.NewString(), "{round}", "7", "{chunk}", "0", "{provider}", "sandbox").Replace(pattern)
			if path == pattern {
				path += "?cursor=" + id
			}
			madeUp.Store(id)
			reads.Store(0)
			began = time.Now()
			first := ask(path)
			second := ask(path)
			switch {
			case !strings.HasPrefix(cost, "DynamoDB"):
				require.Zero(t, second, "%s declares %s", pattern, cost)
			case cached != "no" && time.Since(began) < 900*time.Millisecond:
				require.Equal(t, first, second, "%s is declared as cached", pattern)
			}
			t.Logf("%-70s %d, %d", pattern, first, second)
		}
	}
}
