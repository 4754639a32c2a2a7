package crowd_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// doorkeeper refuses positions until a turn, which moves by shift at each request, and gives positions
// from opens on.
type doorkeeper struct {
	turn, opens time.Time
	shift       time.Duration
	asked       int
}

func (d *doorkeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	d.asked++
	status, body := http.StatusOK, `{}`
	if time.Now().Before(d.opens) {
		status, body = http.StatusTooManyRequests, fmt.Sprintf(`{"code":"ASK_LATER","asksAt":"%d"}`, d.turn.UnixMilli())
		d.turn = d.turn.Add(d.shift)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A patient visitor asks at the turn that the gateway names, an impatient one all the time. Who gains by
// that is noted.
func TestVisitorsAskAtTheirTurn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		impatient   bool
		opens       time.Duration // when positions are given in fact
		shift       time.Duration
		asks, wrong int
	}{
		"patient":                        {false, 10 * time.Second, 0, 2, 0},
		"impatient":                      {true, 10 * time.Second, 0, 11, 0},
		"the gateway is lenient":         {true, 3 * time.Second, 0, 4, 1},
		"asking brings the turn forward": {true, 2 * time.Second, -time.Second, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				d := &doorkeeper{turn: start.Add(10 * time.Second), opens: start.Add(tt.opens), shift: tt.shift}
				tally, err := crowd.NewAPIOver(d, crowd.NewRecorder()).AskForPosition(t.Context(), tt.impatient)
				require.NoError(t, err)
				require.Equal(t, tt.opens, time.Since(start))
				require.Equal(t, tt.asks, d.asked)
				require.Len(t, tally.Violations(), tt.wrong)
			})
		})
	}
}
