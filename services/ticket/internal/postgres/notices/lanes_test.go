package notices_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/webhook"
)

const (
	firstSecret    = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	secondSecret   = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4"
	attemptTimeout = 300 * time.Millisecond
)

// receiver is a webhook's server. It verifies notices, and records them in the order of arrival.
type receiver struct {
	*httptest.Server

	// behave answers a recorded request. arrival is the number of the request, from 1.
	behave func(w http.ResponseWriter, r *http.Request, arrival int)

	mu       sync.Mutex
	secrets  []string
	forged   []string
	arrivals []arrived
}

type arrived struct{ id, entity string }

func newReceiver(t *testing.T, behave func(http.ResponseWriter, *http.Request, int), secrets ...string) *receiver {
	t.Helper()
	rc := &receiver{behave: behave, secrets: secrets}
	rc.Server = httptest.NewTLSServer(http.HandlerFunc(rc.serve))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has given up
	}
	var n struct {
		Data struct{ EventID string }
	}
	err = json.Unmarshal(body, &n)
	rc.mu.Lock()
	for _, s := range rc.secrets {
		verifier, _ := standardwebhooks.NewWebhook(s)
		if verifier.Verify(body, r.Header) != nil || err != nil {
			rc.forged = append(rc.forged, s)
		}
	}
	rc.arrivals = append(rc.arrivals, arrived{r.Header.Get("webhook-id"), n.Data.EventID})
	arrival := len(rc.arrivals)
	rc.mu.Unlock()
	rc.behave(w, r, arrival)
}

func (rc *receiver) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(rc.Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// requireInOrder fails the test unless all notices about each entity have arrived in order.
func (rc *receiver) requireInOrder(t *testing.T, want map[string][]string) {
	t.Helper()
	rc.mu.Lock()
	defer rc.mu.Unlock()
	require.Empty(t, rc.forged)
	got := make(map[string][]string)
	for _, a := range rc.arrivals {
		if ids := got[a.entity]; len(ids) == 0 || ids[len(ids)-1] != a.id {
			got[a.entity] = append(ids, a.id)
		}
	}
	require.Equal(t, want, got)
}

// crashing is the queue of a replica. Once dead is set, it stores no outcome, as after a crash.
type crashing struct {
	notice.Queue

	dead atomic.Bool
}

var errDead = errors.New("the replica is dead")

func (c *crashing) End(ctx context.Context, d *notice.Delivery, s notice.State, o notice.Outcome) error {
	if c.dead.Load() {
		return errDead
	}
	return c.Queue.End(ctx, d, s, o)
}

func (c *crashing) Retry(ctx context.Context, d *notice.Delivery, o notice.Outcome, after time.Duration) error {
	if c.dead.Load() {
		return errDead
	}
	return c.Queue.Retry(ctx, d, o, after)
}

// world is the environment of a test: a store on the real clock, and a sender for its replicas.
type world struct {
	database *postgres.Database
	store    *notices.Store
	sender   *webhook.Sender
}

func newWorld(t *testing.T, trust *tls.Config) *world {
	t.Helper()
	database := postgres.New(storetest.New(t).Pool, postgres.Options{})
	w := &world{database: database, store: notices.NewStore(database, false), sender: webhook.NewSender(webhook.Options{Private: true, TLS: trust})}
	t.Cleanup(func() { require.NoError(t, w.sender.Close(context.Background())) })
	return w
}

// replica starts a replica that sends the deliveries of queue until stop is called.
func (w *world) replica(t *testing.T, queue notice.Queue) (stop func()) {
	t.Helper()
	lanes := &notice.Lanes{
		Queue: queue, Concurrency: 4, Timeout: attemptTimeout, Lease: attemptTimeout + 700*time.Millisecond, Every: 20 * time.Millisecond,
		Retry: notice.RetryPolicy{After: 20 * time.Millisecond, For: time.Minute}, Log: slog.New(slog.DiscardHandler),
		Observe: func(string, notice.Outcome) {},
		List: func(ctx context.Context) ([]notice.Lane, error) {
			hooks, err := w.store.ListWebhooks(ctx)
			var list []notice.Lane
			for _, hook := range hooks {
				list = append(list, w.sender.Lane(hook))
			}
			return list, err
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = lanes.Run(ctx) })
	running.Go(func() { _ = w.store.Walker(20*time.Millisecond, lanes.Log)(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func (w *world) put(t *testing.T, name, url, secret string) notice.Webhook {
	t.Helper()
	hook, err := notice.NewWebhooks(w.store, false).Put(t.Context(), notice.Webhook{
		Name: name, URL: url, Secret: secret, Types: []string{string(notice.EventPostponed)},
	})
	require.NoError(t, err)
	return hook
}

// insertNotices inserts a notice about each of n entities, and appends its id to ids.
func (w *world) insertNotices(t *testing.T, n int, ids map[string][]string) {
	t.Helper()
	require.NoError(t, w.database.InTx(t.Context(), func(ctx context.Context, tx *postgres.Tx) error {
		var list []notice.New
		for i := range n {
			list = append(list, notice.ForEvent(notice.EventPostponed, notice.Event{EventID: fmt.Sprint("e", i)}))
		}
		if err := notices.Insert(ctx, tx.Queries, list); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT DISTINCT ON (entity) entity, notice_id FROM notices ORDER BY entity, n DESC")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var entity string
			var id uuid.UUID
			if err := rows.Scan(&entity, &id); err != nil {
				return err
			}
			ids[entity] = append(ids[entity], id.String())
		}
		return rows.Err()
	}))
}

// waitFor waits until every delivery to the webhooks has ended.
func (w *world) waitFor(t *testing.T, hooks ...notice.Webhook) {
	t.Helper()
	for _, hook := range hooks {
		testkit.Until(t, func() bool {
			waiting, err := w.database.Queries().NoticesToWalk(t.Context(), db.NoticesToWalkParams{Max: 1})
			c, err2 := w.store.Count(t.Context(), notice.Lane{ID: hook.ID})
			return err == nil && err2 == nil && len(waiting) == 0 && c.Pending == 0
		})
	}
}

// One receiver is down, then slow, and fails after it has stored notices. Meanwhile one of two
// replicas dies, and the secret is changed. The other receiver is not affected.
func TestEveryNoticeArrivesSignedAndInOrder(t *testing.T) {
	t.Parallel()
	down := atomic.Bool{}
	down.Store(true)
	bad := newReceiver(t, func(rw http.ResponseWriter, r *http.Request, arrival int) {
		switch {
		case down.Load():
			rw.WriteHeader(http.StatusServiceUnavailable)
		case arrival%5 == 1: // the receiver stores the notice, but does not answer
			panic(http.ErrAbortHandler)
		case arrival%7 == 2: // the answer comes after the timeout of the sender
			<-r.Context().Done()
		case arrival%7 == 4:
			rw.Header().Set("Location", "/elsewhere")
			rw.WriteHeader(http.StatusTemporaryRedirect)
		}
	}, firstSecret)
	bad.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	good := newReceiver(t, func(http.ResponseWriter, *http.Request, int) {}, secondSecret)
	trust := bad.trust()
	trust.RootCAs.AddCert(good.Certificate())
	w := newWorld(t, trust)
	hookBad, hookGood := w.put(t, "bad", bad.URL, firstSecret), w.put(t, "good", good.URL, secondSecret)
	dying := &crashing{Queue: w.store}
	stop := w.replica(t, dying)
	w.replica(t, w.store)

	want := make(map[string][]string)
	const entities = 6
	w.insertNotices(t, entities, want)
	w.insertNotices(t, entities, want)
	w.waitFor(t, hookGood)
	good.requireInOrder(t, want)
	failing, err := w.store.Count(t.Context(), notice.Lane{ID: hookBad.ID})
	require.NoError(t, err)
	require.EqualValues(t, 2*entities, failing.Pending)

	down.Store(false)
	dying.dead.Store(true)
	w.insertNotices(t, entities, want)
	w.waitFor(t, hookGood)
	stop()
	require.Equal(t, hookBad.ID, w.put(t, "bad", bad.URL, secondSecret).ID)
	w.insertNotices(t, entities, want)
	w.waitFor(t, hookBad, hookGood)
	good.requireInOrder(t, want)
	bad.requireInOrder(t, want) // notices are still signed with the former secret, too
}

// A notice that could not be delivered for too long becomes FAILED, and the next one about its
// entity is sent. A replay sends both again, with the same ids.
func TestFailedNoticesAreReplayed(t *testing.T) {
	t.Parallel()
	refusing := atomic.Bool{}
	refusing.Store(true)
	rc := newReceiver(t, func(rw http.ResponseWriter, _ *http.Request, _ int) {
		if refusing.Load() {
			rw.WriteHeader(http.StatusTeapot)
		}
	}, firstSecret)
	w := newWorld(t, rc.trust())
	hook := w.put(t, "hook", rc.URL, firstSecret)
	want := make(map[string][]string)
	w.insertNotices(t, 1, want)
	w.insertNotices(t, 1, want)
	require.NoError(t, w.store.Walk(t.Context()))
	lane := w.sender.Lane(hook)
	for i := range 2 {
		list, more, err := w.store.Claim(t.Context(), hook.ID, 2, time.Minute)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, i == 0, more, "the second was put off")
		require.Equal(t, want["e0"][i], list[0].ID.String())
		require.NoError(t, w.store.End(t.Context(), &list[0], notice.Failed, lane.Send(t.Context(), &list[0])))
	}
	webhooks := notice.NewWebhooks(w.store, false)
	log, next, err := webhooks.Log(t.Context(), "hook", 1, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, want["e0"][1], log[0].NoticeID.String())
	require.Equal(t, notice.Failed, log[0].State)
	require.Equal(t, notice.Outcome{Status: http.StatusTeapot, Error: "the answer was 418"}, log[0].Last)
	log, next, err = webhooks.Log(t.Context(), "hook", 1, next)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Equal(t, want["e0"][0], log[0].NoticeID.String())

	refusing.Store(false)
	_, _, err = webhooks.Replay(t.Context(), "other", notice.Replay{IDs: []uuid.UUID{uuid.Max}})
	require.ErrorIs(t, err, notice.ErrWebhookNotFound)
	queued, nextSince, err := w.store.Replay(t.Context(), "hook", notice.Replay{Since: time.Now().Add(-time.Hour)}, 1)
	require.NoError(t, err)
	require.Equal(t, 1, queued)
	queued, nextSince, err = webhooks.Replay(t.Context(), "hook", notice.Replay{Since: nextSince})
	require.NoError(t, err)
	require.Equal(t, 1, queued)
	require.Zero(t, nextSince)
	w.replica(t, w.store)
	w.waitFor(t, hook)
	want["e0"] = append(want["e0"], want["e0"]...)
	rc.requireInOrder(t, want)

	queued, _, err = webhooks.Replay(t.Context(), "hook", notice.Replay{IDs: []uuid.UUID{uuid.MustParse(want["e0"][1]), uuid.Max}})
	require.NoError(t, err)
	require.Equal(t, 1, queued)
	w.waitFor(t, hook)
	want["e0"] = append(want["e0"], want["e0"][1])
	require.Len(t, rc.arrivals, 5)

	require.NoError(t, webhooks.Delete(t.Context(), "hook"))
	require.NoError(t, webhooks.Delete(t.Context(), "hook"))
	_, _, err = webhooks.Log(t.Context(), "hook", 1, uuid.Nil)
	require.ErrorIs(t, err, notice.ErrWebhookNotFound)
}

// The outcome of an attempt is ignored if another attempt has begun meanwhile.
func TestLateOutcomeIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	hook := w.put(t, "hook", "https://example.com/", firstSecret)
	w.insertNotices(t, 1, make(map[string][]string))
	require.NoError(t, w.store.Walk(t.Context()))
	first, _, err := w.store.Claim(t.Context(), hook.ID, 1, 0)
	require.NoError(t, err)
	second, _, err := w.store.Claim(t.Context(), hook.ID, 1, time.Minute)
	require.NoError(t, err)
	require.Equal(t, first[0].ID, second[0].ID)
	require.NoError(t, w.store.End(t.Context(), &first[0], notice.Delivered, notice.Outcome{}))
	c, err := w.store.Count(t.Context(), notice.Lane{ID: hook.ID})
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Pending)
	require.NoError(t, w.store.Retry(t.Context(), &first[0], notice.Outcome{}, 0))
	none, _, err := w.store.Claim(t.Context(), hook.ID, 1, 0)
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, w.store.End(t.Context(), &second[0], notice.Delivered, notice.Outcome{Status: 200}))
	c, err = w.store.Count(t.Context(), notice.Lane{ID: hook.ID})
	require.NoError(t, err)
	require.Zero(t, c)
}

func TestWebhooksAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	webhooks := notice.NewWebhooks(w.store, false)
	put := func(i int) error {
		_, err := webhooks.Put(t.Context(), notice.Webhook{Name: fmt.Sprint("h", i), URL: "https://example.com", Secret: firstSecret, Types: []string{"X"}})
		return err
	}
	for i := range notice.MaxWebhooks - 1 {
		require.NoError(t, put(i))
	}
	results := storetest.Concurrently(4, func(i int) error { return put(100 + i) })
	require.Equal(t, 1, storetest.CountSucceeded(t, results, notice.ErrTooManyWebhooks))
	require.NoError(t, put(0))
	_, err := webhooks.Put(t.Context(), notice.Webhook{Name: "h0", URL: "https://example.com/x", Types: []string{"X"}})
	require.NoError(t, err, "the secret stays")
	for url, field := range map[string]string{
		"http://example.com": "must begin", "ftp://example.com": "must begin", "https://a:b@example.com": "must be an address", "https://": "must be an address",
	} {
		_, err := webhooks.Put(t.Context(), notice.Webhook{Name: "h0", URL: url, Types: []string{"X"}})
		require.Contains(t, fmt.Sprintf("%+v", fieldsOf(err)), field)
	}
	for _, secret := range []string{"secret", "whsec_MDEy", "whsec_%", strings.TrimPrefix(firstSecret, "whsec_")} {
		_, err := webhooks.Put(t.Context(), notice.Webhook{Name: "h0", URL: "https://example.com", Secret: secret, Types: []string{"X"}})
		require.Contains(t, fmt.Sprintf("%+v", fieldsOf(err)), "must be whsec_")
	}
}

func fieldsOf(err error) []errs.Field { return errs.From(err).Fields }
