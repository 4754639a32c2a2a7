package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// promotion is a first-come promotion and an operator's client for it.
type promotion struct {
	t        *testing.T
	p        *harness.Platform
	operator *harness.Client
	event    string
}

type eventRequest struct {
	RequestID, EventID, Status, UIResult, ResultCode, ErrorCode, QueueSeq string
	Place                                                                 int
	Duplicate                                                             bool
}

func openPromotion(t *testing.T, p *harness.Platform, places int) *promotion {
	t.Helper()
	o := &promotion{t: t, p: p, operator: p.Operator()}
	body := map[string]any{
		"title": "Shoes", "eventType": "FIRST_COME", "capacityTotal": places,
		"opensAt": time.Now().Add(-time.Hour), "closesAt": time.Now().Add(time.Hour),
	}
	operator := o.operator.With("Idempotency-Key", uuid.NewString())
	var created, again struct{ EventID, Status string }
	a := operator.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/promotions", body, &created)
	require.Equal(t, http.StatusCreated, a.Status)
	require.Equal(t, "Open", created.Status)
	operator.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/promotions", body, &again)
	require.Equal(t, created, again, "the same key gets the same promotion")
	o.event = created.EventID
	return o
}

// apply sends a user's application. The answer has the URL at which its status can be polled.
func (o *promotion) apply(user *harness.Client) (r eventRequest) {
	o.t.Helper()
	a := user.MustCall(o.t.Context(), http.MethodPost, "/api/v1/promotions/"+o.event+"/requests", map[string]any{}, &r)
	require.Equal(o.t, http.StatusAccepted, a.Status)
	require.Equal(o.t, "/api/v1/requests/"+r.RequestID, a.Header.Get("Location"))
	require.NotEmpty(o.t, a.Header.Get("Retry-After"))
	return r
}

// refused waits until the promotion is sold out, applies, and waits until the refusal is recorded.
func (o *promotion) refused(user *harness.Client) (r eventRequest) {
	o.t.Helper()
	path := "/api/v1/promotions/" + o.event
	o.p.Eventually(func(ctx context.Context) error { // the page shows it within a second
		var p struct{ Remaining *int }
		a, err := user.Call(ctx, http.MethodGet, path, nil)
		if err := errors.Join(err, a.Decode(&p)); err != nil {
			return err
		}
		if p.Remaining == nil || *p.Remaining != 0 {
			return fmt.Errorf("not sold out yet: %s", a.Body)
		}
		return nil
	})
	require.Equal(o.t, "SOLD_OUT", user.CallWhileOverloaded(o.t.Context(), http.MethodPost, path+"/requests", map[string]any{}).Code())
	o.p.Eventually(func(ctx context.Context) error {
		a, err := user.Call(ctx, http.MethodGet, path+"/me", nil)
		return errors.Join(err, a.Decode(&r))
	})
	require.Equal(o.t, []string{"REJECTED", "REJECTED_CAPACITY"}, []string{r.Status, r.ResultCode})
	return r
}

// await polls a request until it has the status.
func (o *promotion) await(client *harness.Client, id, status string) (r eventRequest) {
	o.p.Eventually(func(ctx context.Context) error {
		a, err := client.Call(ctx, http.MethodGet, "/api/v1/requests/"+id, nil)
		r = eventRequest{}
		if err := errors.Join(err, a.Decode(&r)); err != nil {
			return err
		}
		if r.Status != status {
			return fmt.Errorf("the request %s is still %s: %s", id, r.Status, a.Body)
		}
		return nil
	})
	return r
}

// list returns the ids of the requests that match an operator's query, read page by page.
func (o *promotion) list(query string) (ids []string) {
	o.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items      []eventRequest
			NextCursor string
		}
		o.operator.MustCall(o.t.Context(), http.MethodGet, "/api/v1/admin/promotions/"+o.event+"/requests?limit=1&"+query+"&cursor="+cursor, nil, &page)
		for _, r := range page.Items {
			ids = append(ids, r.RequestID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return ids
		}
	}
}

func (o *promotion) summary() (s struct {
	Accepted, Unsettled, CapacityRemaining int
	Results                                []struct {
		ResultCode string
		Requests   int
	}
}) {
	o.t.Helper()
	o.operator.MustCall(o.t.Context(), http.MethodGet, "/api/v1/admin/promotions/"+o.event+"/summary", nil, &s)
	return s
}

// TestFirstCome has two places and three applicants, one of whom applies three times. The first two
// get the places. Each applicant can read only requests of their own.
func TestFirstCome(t *testing.T) {
	t.Parallel()
	o := openPromotion(t, harness.Shared(t), 2)
	ann := o.p.Client("ann").With("Idempotency-Key", "the-first")
	first := o.apply(ann)
	require.False(t, first.Duplicate)
	require.Equal(t, first.RequestID, o.apply(ann).RequestID)
	require.False(t, o.apply(ann).Duplicate, "a lost answer is sent for again")
	again := o.apply(ann.With("Idempotency-Key", ""))
	require.Equal(t, first.RequestID, again.RequestID)
	require.True(t, again.Duplicate)

	won := o.await(ann, first.RequestID, "SUCCEEDED")
	require.Equal(t, "SUCCESS", won.UIResult)
	bob, eve := o.p.Client("bob"), o.p.Client("eve")
	second := o.apply(bob)
	next := o.await(bob, second.RequestID, "SUCCEEDED")
	require.Less(t, won.QueueSeq, next.QueueSeq)
	require.Equal(t, []int{1, 2}, []int{won.Place, next.Place})
	third := o.refused(eve)

	o.requireOwn(bob, eve, second.RequestID)
	o.requireTimeline(ann, first.RequestID)
	o.p.Eventually(func(context.Context) error { // the index is updated within a second
		if all := o.list(""); !slices.Equal(all, []string{third.RequestID, second.RequestID, first.RequestID}) {
			return fmt.Errorf("the list has %v", all)
		}
		return nil
	})
	require.Equal(t, []string{third.RequestID}, o.list("status=REJECTED&resultCode=REJECTED_CAPACITY"))
	require.Empty(t, o.list("status=FAILED_FINAL"))
	s := o.summary()
	require.Equal(t, []int{3, 0, 0}, []int{s.Accepted, s.Unsettled, s.CapacityRemaining})
	winners := o.operator.MustCall(t.Context(), http.MethodGet, "/api/v1/admin/promotions/"+o.event+"/winners.csv", nil, nil)
	require.Equal(t, "rank,requestId,userId\r\n1,"+first.RequestID+",ann\r\n2,"+second.RequestID+",bob\r\n", string(winners.Body))

	o.operator.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/promotions/"+o.event+"/close", map[string]any{}, nil)
	o.p.Eventually(func(ctx context.Context) error { // the ingest service reads the terms every 2 s
		a, err := o.p.Client("late").Call(ctx, http.MethodPost, "/api/v1/promotions/"+o.event+"/requests", map[string]any{})
		if err == nil && a.Code() != "NOT_OPEN" {
			err = fmt.Errorf("applied after the end: %d %s", a.Status, a.Body)
		}
		return err
	})
}

// requireOwn requires that only its owner and an operator can read a request.
func (o *promotion) requireOwn(owner, other *harness.Client, id string) {
	o.t.Helper()
	var mine eventRequest
	owner.MustCall(o.t.Context(), http.MethodGet, "/api/v1/promotions/"+o.event+"/me", nil, &mine)
	require.Equal(o.t, id, mine.RequestID)
	a := other.CallWhileOverloaded(o.t.Context(), http.MethodGet, "/api/v1/requests/"+id, nil)
	require.Equal(o.t, "REQUEST_NOT_FOUND", a.Code())
	a = owner.CallWhileOverloaded(o.t.Context(), http.MethodGet, "/api/v1/admin/requests/"+id, nil)
	require.Equal(o.t, http.StatusForbidden, a.Status)
	o.operator.MustCall(o.t.Context(), http.MethodGet, "/api/v1/admin/requests/"+id, nil, &mine)
	require.Equal(o.t, id, mine.RequestID)
	o.p.Eventually(func(ctx context.Context) error {
		var own struct{ Items []eventRequest }
		a, err := owner.Call(ctx, http.MethodGet, "/api/v1/my/requests", nil)
		if err := errors.Join(err, a.Decode(&own)); err != nil {
			return err
		}
		if !slices.ContainsFunc(own.Items, func(r eventRequest) bool { return r.RequestID == id }) {
			return fmt.Errorf("%s is not in the list of its owner: %s", id, a.Body)
		}
		return nil
	})
}

func (o *promotion) requireTimeline(owner *harness.Client, id string) {
	o.t.Helper()
	var timeline struct {
		Items []struct {
			ToStatus   string
			OccurredAt int64
		}
	}
	owner.MustCall(o.t.Context(), http.MethodGet, "/api/v1/requests/"+id+"/timeline", nil, &timeline)
	var path []string
	at := int64(0)
	for _, step := range timeline.Items {
		path = append(path, step.ToStatus)
		require.Greater(o.t, step.OccurredAt, at)
		at = step.OccurredAt
	}
	require.Equal(o.t, []string{"RECEIVED", "QUEUED", "PROCESSING", "SUCCEEDED"}, path)
}

// TestRedriveOfARequest has a request that cannot be stored until the test removes the cause. An
// operator finds it among the dead letters and redrives it.
func TestRedriveOfARequest(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Ingest, platform.Worker, platform.Gateway}, AWS: true,
		Env: map[string][]string{platform.Gateway: {"VWR_ADDR="}, platform.Worker: {"WORKER_RETRY_DELAY=0s", "WORKER_MAX_ATTEMPTS=2"}},
	})
	o := openPromotion(t, p, 2)
	p.DynamoDB().Use(func(c awsproxy.Call) awsproxy.Fault {
		item := c.FindItem("REQ#", "META")
		if !strings.HasPrefix(c.Caller, platform.Worker) || item < 0 || c.FindItem("OUTBOX#", "") < 0 || c.FindItem("DLQ#", "") >= 0 {
			return awsproxy.Fault{}
		}
		return awsproxy.Canceled(c, item, awsproxy.Validation)
	})
	ann := p.Client("ann")
	id := o.apply(ann).RequestID
	failed := o.await(ann, id, "FAILED_FINAL")
	require.Equal(t, "FAILED_WORKER", failed.ResultCode)
	require.Equal(t, "FAILED", failed.UIResult)
	type letter struct{ RequestID, ErrorCode string }
	var letters struct{ Items []letter }
	o.operator.MustCall(t.Context(), http.MethodGet, "/api/v1/admin/dlq/requests", nil, &letters)
	// There is another letter if an overloaded platform answered an earlier application too late.
	matching := slices.DeleteFunc(letters.Items, func(l letter) bool { return l.RequestID != id })
	require.Equal(t, []letter{{id, failed.ErrorCode}}, matching)

	p.DynamoDB().Use(nil)
	var done struct{ Redriven, Refused []string }
	redrive := func() {
		o.operator.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/dlq/requests/redrive", map[string]any{"ids": []string{id}}, &done)
	}
	redrive()
	require.Equal(t, []string{id}, done.Redriven)
	require.Equal(t, "SUCCESS", o.await(ann, id, "SUCCEEDED").UIResult)
	redrive()
	require.Equal(t, []string{id}, done.Refused, "it has not failed")
	require.Equal(t, 1, o.summary().CapacityRemaining)
}
