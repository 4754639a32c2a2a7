package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// auditedAct is an operator's act as the audit log returns it.
type auditedAct struct {
	ActID, UserID, Address, Method, Route, Path, EventID, RequestID, Body, Code string
	At                                                                          time.Time
	Status                                                                      int
}

// auditLog reads the audit log of an event through a gateway.
func auditLog(ctx context.Context, operator *harness.Client, event string) ([]auditedAct, error) {
	var list struct{ Items []auditedAct }
	a, err := operator.Call(ctx, http.MethodGet, "/api/v1/admin/audit?user=operator&limit=100&eventId="+event, nil)
	if err == nil {
		err = a.Decode(&list)
	}
	return list.Items, err
}

// awaitAct waits until the audit log has an act with this path and body.
func awaitAct(t *testing.T, p *harness.Platform, operator *harness.Client, event, path, body string) (found auditedAct) {
	t.Helper()
	p.Eventually(func(ctx context.Context) error {
		acts, err := auditLog(ctx, operator, event)
		for _, a := range acts {
			if a.Path == path && a.Body == body {
				found = a
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("no act %s %s in %v", path, body, acts))
	})
	return found
}

// TestAuditLog checks that the log says who did what, when, from where, and with which result.
// While Kafka is down, the operator can still slow and stop the sale. Records of these acts arrive
// later, even if the gateway is killed. All other acts are refused and have no effect.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{
		OwnBackends: true, Replicas: map[string]int{platform.Gateway: 2},
		Services: []string{platform.Ticket, platform.Stats, platform.Queue, platform.VWR, platform.Gateway},
	})
	event := newSale(t, p)
	const address = "203.0.113.77"
	operator := p.Operator().With("X-Forwarded-For", address)
	threshold := "/api/v1/queue/admin/threshold/" + event
	began := time.Now().Add(-time.Minute) // a margin: the times may differ by milliseconds
	answer := operator.MustCall(t.Context(), http.MethodPut, threshold, `{"threshold":50}`, nil)
	act := awaitAct(t, p, operator, event, threshold, `{"threshold":50}`)
	require.NotEmpty(t, act.ActID)
	require.True(t, act.At.After(began) && act.At.Before(time.Now().Add(time.Minute)), "%v", act.At)
	p.Eventually(func(ctx context.Context) error { // the outcome comes by another Kafka event
		acts, err := auditLog(ctx, operator, event)
		if err == nil && acts[0].Status == 0 {
			err = errors.New("the outcome is not known yet")
		}
		return err
	})
	acts, err := auditLog(t.Context(), operator, event)
	require.NoError(t, err)
	require.Equal(t, auditedAct{
		ActID: act.ActID, At: act.At, UserID: "operator", Address: address, Method: http.MethodPut,
		Route: "/api/v1/queue/admin/threshold/{event_id}", Path: threshold, EventID: event, RequestID: answer.Header.Get("X-Request-Id"),
		Body: `{"threshold":50}`, Status: http.StatusOK,
	}, acts[0])

	p.Backend("kafka").Kill()
	operator.MustCall(t.Context(), http.MethodPut, threshold, `{"threshold":7}`, nil)
	pause := "/api/v1/queue/admin/" + event + "/pause"
	operator.MustCall(t.Context(), http.MethodPost, pause, `{}`, nil)
	other := "/api/v1/admin/events/" + event + "-other"
	p.Eventually(func(ctx context.Context) error {
		refused, err := operator.Call(ctx, http.MethodPut, other, saleBody)
		if err == nil && refused.Code() != "AUDIT_UNAVAILABLE" { // a busy platform may refuse earlier
			err = fmt.Errorf("answered %d: %s", refused.Status, refused.Body)
		}
		if err == nil {
			require.Equal(t, http.StatusServiceUnavailable, refused.Status)
		}
		return err
	})
	p.Service(platform.Gateway).Kill(0)
	survivor := operator.AtReplica(1)
	var line struct {
		Threshold int
		Pauses    []string
	}
	survivor.MustCall(t.Context(), http.MethodGet, "/api/v1/queue/admin/"+event, nil, &line)
	require.Equal(t, 7, line.Threshold, "it is in force")
	require.Contains(t, line.Pauses, "OPERATOR")
	absent := survivor.CallWhileOverloaded(t.Context(), http.MethodGet, other, nil)
	require.Equal(t, http.StatusNotFound, absent.Status, "the refused act had no effect: %s", absent.Body)

	p.Backend("kafka").Start()
	for path, body := range map[string]string{threshold: `{"threshold":7}`, pause: `{}`} {
		require.Equal(t, address, awaitAct(t, p, survivor, event, path, body).Address)
	}
	p.Eventually(func(ctx context.Context) error {
		waiting, err := p.Service(platform.Gateway).Metric(ctx, 1, "urr_audit_waiting")
		if err == nil && waiting != 0 {
			err = fmt.Errorf("%v records wait", waiting)
		}
		return err
	})
	survivor.MustCall(t.Context(), http.MethodPut, other, saleBody, nil)
}
