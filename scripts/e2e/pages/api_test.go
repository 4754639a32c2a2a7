package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/internal/fetch"
)

// visitor calls the API as a browser's page would, with its own cookies.
type visitor struct {
	t      *testing.T
	client *http.Client
	token  string
	entry  string
	// stopHeartbeats stops the heartbeats of a visitor who occupies a slot.
	stopHeartbeats func()
	// key is the Idempotency-Key of the next calls; empty = none.
	key string
}

type object = map[string]any

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &visitor{t: t, client: &http.Client{Jar: jar}}
}

// signIn returns a signed-in visitor with an unused name.
func signIn(t *testing.T, roles ...string) *visitor {
	t.Helper()
	return signInAs(t, uniqueID("user"), roles...)
}

func signInAs(t *testing.T, user string, roles ...string) *visitor {
	t.Helper()
	v := newVisitor(t)
	if roles == nil {
		roles = []string{}
	}
	answer := v.call(http.MethodPost, "/api/v1/auth/dev-login", object{"userId": user, "roles": roles})
	v.token, _ = answer["token"].(string)
	require.NotEmpty(t, v.token)
	return v
}

var (
	runID   = time.Now().UnixMilli()
	idCount atomic.Int64
)

// uniqueID returns an id that no earlier run has used.
func uniqueID(prefix string) string { return fmt.Sprintf("%s-%x-%d", prefix, runID, idCount.Add(1)) }

// call sends a request, requires success, and returns the fields of the JSON response. It repeats
// the request while the platform is overloaded.
func (v *visitor) call(method, path string, body any) (members object) {
	v.t.Helper()
	ctx, cancel := testkit.Context(v.t)
	defer cancel()
	testkit.Until(v.t, func() bool {
		answer, err := v.client.Do(v.request(ctx, method, path, body))
		require.NoError(v.t, err)
		raw, err := io.ReadAll(answer.Body)
		require.NoError(v.t, errors.Join(err, answer.Body.Close()))
		if fetch.Overloaded(answer.StatusCode) {
			return false
		}
		require.Equal(v.t, 2, answer.StatusCode/100, "%s %s: %s: %s", method, path, answer.Status, raw)
		members = object{}
		if len(raw) > 0 {
			require.NoError(v.t, json.Unmarshal(raw, &members), "%s %s: %s", method, path, raw)
		}
		return true
	}, "a platform that answers %s %s", method, path)
	return members
}

// request builds a request to the API with the visitor's current credentials.
func (v *visitor) request(ctx context.Context, method, path string, body any) *http.Request {
	v.t.Helper()
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(v.t, err)
		payload = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, platformURL+path, payload)
	require.NoError(v.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json")
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	if v.key != "" {
		r.Header.Set("Idempotency-Key", v.key)
	}
	if v.entry != "" {
		r.Header.Set("X-Queue-Entry-Token", v.entry)
	}
	return r
}

// enter joins an event's line and waits for a slot. The line has to admit this visitor next.
func (v *visitor) enter(event string) {
	v.t.Helper()
	place := v.call(http.MethodPost, "/api/v1/queue/check/"+event, nil)
	testkit.Until(v.t, func() bool {
		v.entry, _ = place["entryToken"].(string)
		if v.entry == "" {
			place = v.call(http.MethodGet, "/api/v1/queue/status/"+event, nil)
		}
		return v.entry != ""
	}, "the line lets in")
}

// occupy gets a slot like enter and keeps it until the visitor leaves or the test ends. Without a
// heartbeat a slot ends after two minutes, and a slow test may take longer.
func (v *visitor) occupy(event string) {
	v.t.Helper()
	v.enter(event)
	ctx, cancel := context.WithCancel(v.t.Context())
	done := make(chan struct{})
	v.stopHeartbeats = func() {
		cancel()
		<-done
	}
	v.t.Cleanup(v.stopHeartbeats)
	go func() {
		defer close(done)
		ticker := time.NewTicker(10 * time.Second) // the interval of the pages
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			// A new request each time: the cookie jar adds its cookies to those of a request sent before.
			answer, err := v.client.Do(v.request(ctx, http.MethodPost, "/api/v1/queue/heartbeat/"+event, nil))
			if err != nil {
				continue // retried at the next tick
			}
			_ = answer.Body.Close()
			if fetch.Overloaded(answer.StatusCode) {
				continue // the heartbeat had no effect
			}
			if answer.StatusCode != http.StatusOK {
				v.t.Errorf("the heartbeat of whoever occupies %s: %s", event, answer.Status)
			}
		}
	}()
}

func (v *visitor) leave(event string) {
	v.t.Helper()
	if v.stopHeartbeats != nil {
		v.stopHeartbeats()
	}
	v.call(http.MethodPost, "/api/v1/queue/leave/"+event, nil)
	v.entry = ""
}

// sale describes a test's event. The zero value has 60 assigned seats in two sections and a line
// that admits all visitors immediately.
type sale struct {
	seating   string
	threshold int
	sections  []object
	limit     int
	// opens and closes are relative to now; zero means an hour ago and in twenty days. hold is in
	// seconds.
	opens, closes time.Duration
	hold          int
	timeZone      string
	transferable  string
	// returns is how many places a user may give back, which are for sale again at once; 0: the default.
	returns int
	// presale lists what entitles users to a presale, which is open. nil: there is no presale.
	presale []object
}

// open creates an event on sale and returns its id.
func (s sale) open(t *testing.T) string {
	t.Helper()
	event := uniqueID("e2e")
	s.put(t, event)
	return event
}

// put creates or updates an event as the sale describes.
func (s sale) put(t *testing.T, event string) {
	t.Helper()
	if s.seating == "" {
		s.seating = "ASSIGNED"
	}
	if s.sections == nil {
		s.sections = []object{
			{"section": "VIP", "price": 165000, "rows": 3, "seatsPerRow": 8},
			{"section": "A", "price": 110000, "rows": 3, "seatsPerRow": 12},
		}
	}
	if s.threshold == 0 {
		s.threshold = 1000
	}
	if s.limit == 0 {
		s.limit = 4
	}
	if s.opens == 0 {
		s.opens = -time.Hour
	}
	if s.closes == 0 {
		s.closes = 20 * 24 * time.Hour
	}
	now := time.Now().UTC()
	body := object{
		"title": "Autumn Light " + event, "artist": "긴 기다림", "venue": "Olympic Hall",
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(s.opens), "salesCloseAt": now.Add(s.closes),
		"seating": s.seating, "currency": "KRW", "maxPerUser": s.limit, "threshold": s.threshold, "sections": s.sections,
	}
	if s.hold != 0 {
		body["holdSeconds"] = s.hold
	}
	if s.timeZone != "" {
		body["timeZone"] = s.timeZone
	}
	if s.presale != nil {
		body["presale"] = object{"opensAt": now.Add(-time.Hour), "maxPerUser": 2, "any": s.presale}
	}
	if s.returns != 0 {
		body["maxReturnsPerUser"], body["returnWithin"] = s.returns, 0
	}
	if s.transferable != "" {
		body["transferable"] = s.transferable
	}
	signIn(t, "admin").call(http.MethodPut, "/api/v1/admin/events/"+event, body)
}

// openRoom opens an event's waiting room, in which this number of visitors is ahead of the next
// one. It serves no position until serveAll is called.
func openRoom(t *testing.T, event string, ahead int) {
	t.Helper()
	openRoomBefore(t, "QUEUE", event, ahead)
}

// openRoomBefore opens a waiting room as openRoom does, before a line, a promotion or a campaign.
func openRoomBefore(t *testing.T, next, event string, ahead int) {
	t.Helper()
	activateRoom(t, event, object{"batch": 1, "intervalSeconds": 3600, "next": next})
	for range ahead {
		newVisitor(t).call(http.MethodPost, "/vwr-api/vwr/assign/"+event, nil)
	}
}

// activateRoom opens a waiting room and returns when the gateway knows that it is open.
func activateRoom(t *testing.T, event string, settings object) {
	t.Helper()
	signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/vwr/activate/"+event, settings)
	v := newVisitor(t)
	testkit.Until(t, func() bool {
		return v.call(http.MethodGet, "/vwr-api/vwr/status/"+event, nil)["isActive"] == true
	}, "the gateway hears of the waiting room")
}

// serveAll serves everybody who waits in a room. A repeated assign leaves a position that nobody
// has, so the last visitor's position may be greater than the number of visitors.
func serveAll(t *testing.T, event string) {
	t.Helper()
	signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/vwr/advance/"+event, object{"batchSize": 50})
}

// words returns the texts of the pages in a language, by group and key.
func words(t *testing.T, lang string) map[string]map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "services/gateway/internal/web/lang", lang+".json"))
	require.NoError(t, err)
	var all map[string]map[string]string
	require.NoError(t, json.Unmarshal(raw, &all))
	return all
}
