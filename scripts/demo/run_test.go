package demo_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// outcome is a verdict that is OK if its value is true.
type outcome bool

func (o outcome) OK() bool     { return bool(o) }
func (o outcome) Line() string { return audit.LastLine("demo-test", bool(o), "n=1", 0) }

// steps is a demo that records its calls, and fails in the call whose name is in failing.
type steps struct {
	*demo.Stage

	called  []string
	failing string
}

var errStep = errors.New("it failed")

func (s *steps) do(name string) error {
	s.called = append(s.called, name)
	if name == s.failing {
		return errStep
	}
	return nil
}

func (s *steps) Play(context.Context) error                       { return s.do("play") }
func (s *steps) InjectFault(_ context.Context, what string) error { return s.do("damage " + what) }

func (s *steps) Judge(context.Context) (outcome, audit.Findings, error) {
	damaged := len(s.called) > 1
	return outcome(!damaged), nil, s.do("judge")
}

func (s *steps) Report(context.Context, outcome) (*demo.Report, error) {
	return &demo.Report{Heading: "a run"}, s.do("report")
}

func TestCourseOfARun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage, failing string
		called          []string
		err             error
	}{
		"good":           {called: []string{"play", "judge", "report"}},
		"damaged":        {damage: "x", called: []string{"play", "damage x", "judge", "report"}, err: demo.ErrBroken},
		"cannot play":    {damage: "x", failing: "play", called: []string{"play"}, err: errStep},
		"cannot damage":  {damage: "x", failing: "damage x", called: []string{"play", "damage x"}, err: errStep},
		"cannot be read": {failing: "judge", called: []string{"play", "judge"}, err: errStep},
		"has no report":  {failing: "report", called: []string{"play", "judge", "report"}, err: errStep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, dir := &steps{Stage: demo.NewStage("http://localhost"), failing: tc.failing}, t.TempDir()
			require.ErrorIs(t, demo.Run(t.Context(), d, tc.damage, dir), tc.err)
			if slices.Contains(tc.called, "report") && tc.failing == "" {
				require.FileExists(t, filepath.Join(dir, "report.html"))
				require.FileExists(t, filepath.Join(dir, "report.json"))
			}
			require.Equal(t, tc.called, d.called)
		})
	}
}

func TestKnownDamage(t *testing.T) {
	t.Parallel()
	known := []string{"one", "other"}
	require.NoError(t, demo.CheckFaultKind("", known))
	require.NoError(t, demo.CheckFaultKind("other", known))
	require.EqualError(t, demo.CheckFaultKind("third", known), `BREAK="third": must be one or other`)
}

// The time limit begins when all visitors have gone, and anew whenever something got done.
func TestWatchWaitsUntilSettled(t *testing.T) {
	t.Parallel()
	const acting, limit = time.Minute, 10 * time.Second
	for name, tc := range map[string]struct {
		settling, step time.Duration // step: something gets done each time
		took           time.Duration
		late           bool
	}{
		"settles":         {settling: 9 * time.Second, step: time.Hour, took: acting + 9*time.Second},
		"settles slowly":  {settling: time.Hour, step: 9 * time.Second, took: acting + time.Hour},
		"does not settle": {settling: time.Hour, step: time.Hour, took: acting + limit, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, late := time.Now(), false
				err := demo.Watch(t.Context(), time.Second, limit, func(context.Context) (demo.RunState, int64, error) {
					switch at := time.Since(began); {
					case at < acting:
						return demo.Acting, 0, nil
					case at < acting+tc.settling:
						return demo.Settling, 1000 - int64((at-acting)/tc.step), nil
					default:
						return demo.Settled, 0, nil
					}
				}, func() { late = true })
				require.NoError(t, err)
				require.Equal(t, tc.late, late)
				require.Equal(t, tc.took, time.Since(began))
			})
		})
	}
}

func TestWatchEndsWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readState := func(context.Context) (demo.RunState, int64, error) { return demo.Acting, 0, errStep }
		require.ErrorIs(t, demo.Watch(t.Context(), time.Second, time.Second, readState, func() {}), errStep)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, demo.Watch(ctx, time.Hour, time.Second, readState, func() {}), context.Canceled)
	})
}

// PostUntilDone repeats requests that failed, but not requests that were refused.
func TestPostUntilDone(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/refused":
			w.WriteHeader(http.StatusConflict)
		case requests.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte(`{"n": 7}`))
		}
	}))
	t.Cleanup(server.Close)
	api := crowd.NewAPI(server.URL, crowd.NewRecorder())
	t.Cleanup(api.Close)
	type answer struct{ N int }
	first, second, err := demo.SendTwice(api.NewSession(), func(s *crowd.Session) (a answer, err error) {
		err = demo.PostUntilDone(t.Context(), s, crowd.StepApply, "/", &a)
		return a, err
	})
	require.NoError(t, err)
	require.Equal(t, []answer{{7}, {7}}, []answer{first, second})
	require.EqualValues(t, 3, requests.Load())
	require.EqualError(t, demo.PostUntilDone(t.Context(), api.NewSession(), crowd.StepApply, "/refused", nil), "apply: 409 ")
}
