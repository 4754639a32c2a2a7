package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// Within this time a replica says that it has lost a store, and callers leave it.
	saidLimit = 3 * time.Second
	leftLimit = 6 * time.Second
)

// TestReplicaLosesItsWay cuts one replica of vwr, ingest and worker off from each of its stores, and
// prints after how many seconds it says so, and after how many callers have left it. The others
// serve. A room that is activated meanwhile is known to the gateway which followed the replica. The
// short form has vwr only, and no limits, since it runs beside other tests, which delay replicas.
func TestReplicaLosesItsWay(t *testing.T) {
	parallelIfShort(t)
	services := []string{platform.Gateway, platform.VWR, platform.Ingest, platform.Worker}
	if !*full {
		services = services[:2]
	}
	p := harness.Start(t, harness.Options{
		Services: services, AWS: true, Replicas: map[string]int{platform.VWR: 3, platform.Ingest: 2, platform.Worker: 2},
	})
	l := &lostWay{Platform: p, t: t}
	for _, c := range []struct {
		service, store string
		proxy          *awsproxy.Proxy
		left           func(replica int) func(context.Context) error
	}{
		{platform.VWR, "DynamoDB", p.DynamoDB(), l.roomIsKnown},
		{platform.Ingest, "DynamoDB", p.DynamoDB(), l.notCalled},
		{platform.Worker, "DynamoDB", p.DynamoDB(), nil}, // it takes its work by itself
		{platform.Worker, "SQS", p.SQS(), nil},
	} {
		if !slices.Contains(services, c.service) {
			continue
		}
		said, left := l.lose(c.service, c.proxy, c.left)
		leftText := "has no callers"
		if c.left != nil {
			leftText = fmt.Sprintf("left after %4.1f s", left.Seconds())
		}
		t.Logf("%-8s %-8s said after %4.1f s, %s", c.service, c.store, said.Seconds(), leftText)
		if *full {
			require.LessOrEqual(t, said, saidLimit, "%s without %s", c.service, c.store)
			require.LessOrEqual(t, left, leftLimit, "%s without %s", c.service, c.store)
		}
	}
}

type lostWay struct {
	*harness.Platform
	t *testing.T
}

// lose cuts a replica off from a store until it has said so and, unless left is nil, callers have
// left it. It returns the times that this took, 0 for one that is not measured.
func (l *lostWay) lose(service string, proxy *awsproxy.Proxy, left func(replica int) func(context.Context) error) (saidAfter, leftAfter time.Duration) {
	l.t.Helper()
	replica := l.followed(service)
	name := fmt.Sprintf("%s-%d", service, replica)
	began := time.Now()
	proxy.Use(func(c awsproxy.Call) awsproxy.Fault { return awsproxy.Fault{Cut: c.Caller == name} })
	l.awaitServing(service, replica, false)
	saidAfter = time.Since(began)
	if left != nil {
		l.Eventually(left(replica))
		leftAfter = time.Since(began)
	}
	proxy.Use(nil)
	l.awaitServing(service, replica, true)
	return saidAfter, leftAfter
}

// followed returns the replica with the gateway's stream; 0 for services without streams.
func (l *lostWay) followed(service string) (replica int) {
	l.t.Helper()
	if service == platform.VWR {
		l.Eventually(func(ctx context.Context) error {
			for i := range l.Service(service).Replicas() {
				if n, err := l.Service(service).Metric(ctx, i, "urr_vwr_watchers"); err != nil || n > 0 {
					replica = i
					return err
				}
			}
			return fmt.Errorf("no replica of %s is followed", service)
		})
	}
	return replica
}

func (l *lostWay) awaitServing(service string, replica int, want bool) {
	l.t.Helper()
	l.Eventually(func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Service(service).Ops(replica)+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var health struct {
			Serving bool `json:"serving"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
			return err
		}
		if health.Serving != want {
			return fmt.Errorf("serving: %v", health.Serving)
		}
		return nil
	})
}

// roomIsKnown activates a room at another replica. The check succeeds once the gateway has left the
// replica and knows the room.
func (l *lostWay) roomIsKnown(replica int) func(context.Context) error {
	vwr, visitor := l.Service(platform.VWR), l.Visitor()
	other := vwrv1.NewVwrAdminServiceClient(l.Dial(platform.Gateway, platform.VWR, (replica+1)%vwr.Replicas()))
	_, err := other.Activate(l.t.Context(), &vwrv1.ActivateRequest{Caller: roomOperator, EventId: "activated"})
	require.NoError(l.t, err)
	return func(ctx context.Context) error {
		n, err := vwr.Metric(ctx, replica, "urr_vwr_watchers")
		if err == nil && n > 0 {
			err = fmt.Errorf("%v gateways follow the replica", n)
		}
		if err != nil {
			return err
		}
		answer, err := visitor.Call(ctx, http.MethodGet, "/vwr-api/vwr/serving/activated", nil)
		if err == nil && !strings.Contains(string(answer.Body), `"isActive":true`) {
			err = fmt.Errorf("the room is not known: %s", answer.Body)
		}
		return err
	}
}

// notCalled returns a check that succeeds when none of ten calls of ingest through the gateway
// reaches the replica.
func (l *lostWay) notCalled(replica int) func(context.Context) error {
	visitor, ingest := l.Visitor(), l.Service(platform.Ingest)
	calls := 0
	return func(ctx context.Context) error {
		const handled = `urr_rpc_server_seconds_count{method="IngestService.`
		before, err := ingest.Metric(ctx, replica, handled)
		if err != nil {
			return err
		}
		for range 10 {
			calls++ // gateways remember the ids that do not exist
			if _, err := visitor.Call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/promotions/none-%d", calls), nil); err != nil {
				return err
			}
		}
		after, err := ingest.Metric(ctx, replica, handled)
		if err == nil && after > before {
			err = fmt.Errorf("%v calls reached the replica", after-before)
		}
		return err
	}
}
