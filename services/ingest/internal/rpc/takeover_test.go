package rpc_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ingest/internal/request"
)

// fail ends a request like the worker service after its last attempt.
func (r replica) fail(t *testing.T, id string) {
	t.Helper()
	read := r.request(t, id)
	tx := r.store.Begin()
	tx.Change(0, read.Failed(start.UnixMilli(), promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "X"}))
	require.NoError(t, tx.Commit(t.Context()))
}

// A user whose request failed may apply again. Then the failed request cannot be redriven.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	first := r.applied(t, event, "ann")
	r.fail(t, first.GetRequestId())
	second := r.applied(t, event, "ann")
	require.NotEqual(t, first.GetRequestId(), second.GetRequestId())
	require.False(t, second.GetDuplicate())
	_, err := r.store.Redrive(t.Context(), first.GetRequestId())
	require.ErrorIs(t, err, promotion.ErrNotRedrivable)
	require.Equal(t, second.GetRequestId(), r.applied(t, event, "ann").GetRequestId())
}

// A redrive keeps the lock, or writes it again when it has expired.
func TestRedriveKeepsTheLock(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	for _, name := range []string{"ann", "bob"} {
		id := r.applied(t, event, name).GetRequestId()
		r.fail(t, id)
		if name == "bob" {
			tx := r.store.Begin()
			tx.Delete(0, table.LockKey(event, name), table.Condition{})
			require.NoError(t, tx.Commit(t.Context()))
		}
		_, err := r.store.Redrive(t.Context(), id)
		require.NoError(t, err)
		again := r.applied(t, event, name)
		require.True(t, again.GetDuplicate())
		require.Equal(t, id, again.GetRequestId())
	}
}

// Locks expire before dead letters do. Then the user's index shows whether a later request counts.
func TestLateRedrive(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	var first, last []string
	for _, name := range []string{"ann", "bob", "eve"} {
		first = append(first, r.applied(t, event, name).GetRequestId())
	}
	for i, name := range []string{"ann", "bob"} {
		r.fail(t, first[i])
		last = append(last, r.applied(t, event, name).GetRequestId())
	}
	r.fail(t, last[1])
	r.fail(t, first[2])

	late := r.store.Store
	late.Now = func() time.Time { return r.store.Now().AddDate(0, 0, promotion.LockDays+30) }
	for _, name := range []string{"ann", "bob", "eve"} {
		tx := late.Begin()
		tx.Delete(0, table.LockKey(event, name), table.Condition{})
		require.NoError(t, tx.Commit(t.Context()))
	}
	for _, id := range first[:2] {
		_, err := late.Redrive(t.Context(), id)
		require.ErrorIs(t, err, promotion.ErrNotRedrivable, "its user has another request")
	}
	for _, id := range []string{last[1], first[2]} {
		_, err := late.Redrive(t.Context(), id)
		require.NoError(t, err, "the latest one of its user")
	}
}

// Of an application and a redrive at the same time exactly one takes effect, in a hundred attempts.
func TestTakeoverAgainstRedrive(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long races of replicas")
	w := newEnvironment(t)
	a, b := w.replica(t, options{}), w.replica(t, options{})
	event := a.promotion(t)
	stored, err := a.store.Promotion(t.Context(), event)
	require.NoError(t, err)
	const races = 100
	var work sync.WaitGroup
	for i := range races {
		name := fmt.Sprint("u", i)
		first, err := a.store.Accept(t.Context(), request.Application{EventID: event, UserID: name, Promotion: stored})
		require.NoError(t, err)
		a.fail(t, first.Request.RequestID)
		work.Add(2)
		var redrive error
		go func() {
			defer work.Done()
			if _, err := a.store.Accept(t.Context(), request.Application{EventID: event, UserID: name, Promotion: stored}); err != nil {
				t.Error(err)
			}
		}()
		go func() {
			defer work.Done()
			if _, redrive = b.store.Redrive(t.Context(), first.Request.RequestID); redrive != nil &&
				!errors.Is(redrive, promotion.ErrNotRedrivable) && !dynamo.Contended(redrive) {
				t.Error(redrive)
			}
		}()
	}
	work.Wait()
	live := map[string]int{}
	lockedRequest := map[string]string{}
	for _, it := range w.ofType(t, "IDEMPOTENCY") {
		d := dynamo.Reader{Item: it}
		lockedRequest[d.String("PK")] = d.String("requestId")
	}
	for _, it := range w.ofType(t, "REQUEST") {
		r, err := table.DecodeRequest(it)
		require.NoError(t, err)
		if !r.Status.Final() {
			live[r.UserID]++
			require.Equal(t, r.RequestID, lockedRequest["IDEMP#"+event+"#"+r.UserID], "the lock names the request that counts")
		}
	}
	require.Len(t, live, races)
	for name, n := range live {
		require.Equal(t, 1, n, name)
	}
	require.Len(t, w.ofType(t, "MARKER"), races)
}
