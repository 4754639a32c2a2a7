package cluster_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// gatewayAPI calls the API through the gateways. A refused call fails the test.
type gatewayAPI struct {
	t    *testing.T
	api  *crowd.API
	step crowd.Step
}

// dial returns a client of the gateways for the test. Its calls are recorded under the step.
func (w *world) dial(t *testing.T, step crowd.Step) gatewayAPI {
	t.Helper()
	g := gatewayAPI{t: t, api: crowd.NewAPI("http://"+w.gateway(t), crowd.NewRecorder()), step: step}
	t.Cleanup(g.api.Close)
	return g
}

func (g gatewayAPI) signIn(name string, roles ...string) *crowd.Session {
	g.t.Helper()
	s := g.api.NewSession()
	require.NoError(g.t, s.DevLogin(g.t.Context(), "cluster-"+name, roles...))
	return s
}

// call sends a request with an Idempotency-Key of its own, and decodes the response unless into is
// nil.
func (g gatewayAPI) call(session *crowd.Session, method, path string, body, into any) {
	g.t.Helper()
	answer, err := session.Call(g.t.Context(), g.step, method, path, body, map[string]string{"Idempotency-Key": uuid.NewString()})
	require.NoError(g.t, err)
	require.True(g.t, answer.OK(), "%s %s: %d %s", method, path, answer.Status, answer.Body)
	if into != nil {
		require.NoError(g.t, json.Unmarshal(answer.Body, into))
	}
}

// metric returns the sum of pod.metric over the pods of a service.
func (w *world) metric(t *testing.T, service, name, text string) (sum float64) {
	t.Helper()
	for _, p := range w.podsOf(t, service) {
		sum += p.metric(t, name, text)
	}
	return sum
}
