package app_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"

	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
)

// fakeLetters are the fake dead letters of the services that consume Kafka, by the service's name.
type fakeLetters map[string]*serviceLetters

// serviceLetters is the fake API of one service's dead letters. A page has two letters.
type serviceLetters struct {
	kafkav1.UnimplementedDeadLetterServiceServer
	callLog

	group   string
	letters []*kafkav1.TopicDeadLetter // the latest first
	down    atomic.Bool
}

func newLetters() fakeLetters {
	all := fakeLetters{}
	for _, name := range []string{"payment", "queue", "reward", "stats", "ticket"} {
		all[name] = &serviceLetters{group: name + "-service-group"}
	}
	return all
}

func (f fakeLetters) register(r grpc.ServiceRegistrar, name string) {
	kafkav1.RegisterDeadLetterServiceServer(r, f[name])
}

// add adds dead letters to a service, with ids of the form 0-<time>. The times must descend.
func (f fakeLetters) add(name string, times ...int64) {
	for _, at := range times {
		f[name].letters = append(f[name].letters, &kafkav1.TopicDeadLetter{Id: fmt.Sprint("0-", at), Group: f[name].group, At: at})
	}
}

// page returns the next two letters after a cursor, and the cursor of the next page.
func (l *serviceLetters) page(cursor string, letters []*kafkav1.TopicDeadLetter) (page []*kafkav1.TopicDeadLetter, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil {
			return nil, "", errs.ErrInvalidCursor
		}
	}
	if l.down.Load() {
		return nil, "", errs.ErrUnavailable
	}
	to := min(from+2, len(letters))
	if to < len(letters) {
		next = strconv.Itoa(to)
	}
	return letters[from:to], next, nil
}

func (l *serviceLetters) ListTopicDeadLetters(_ context.Context, in *kafkav1.ListTopicDeadLettersRequest) (*kafkav1.ListTopicDeadLettersResponse, error) {
	l.add("ListTopicDeadLetters", in.GetCaller(), in)
	page, next, err := l.page(in.GetCursor(), l.letters)
	return &kafkav1.ListTopicDeadLettersResponse{Items: page, NextCursor: next}, err
}

func (l *serviceLetters) RedriveTopic(_ context.Context, in *kafkav1.RedriveTopicRequest) (*kafkav1.RedriveTopicResponse, error) {
	l.add("RedriveTopic", in.GetCaller(), in)
	oldest := slices.Clone(l.letters)
	slices.Reverse(oldest)
	page, next, err := l.page(in.GetCursor(), oldest)
	out := &kafkav1.RedriveTopicResponse{NextCursor: next, More: next != ""}
	if len(in.GetIds()) > 0 {
		page, out = oldest, &kafkav1.RedriveTopicResponse{}
	}
	for _, letter := range page {
		if len(in.GetIds()) == 0 || slices.Contains(in.GetIds(), letter.GetId()) {
			out.Redriven = append(out.Redriven, letter.GetId())
		}
	}
	for _, id := range in.GetIds() {
		if !slices.Contains(out.GetRedriven(), id) {
			out.Refused = append(out.Refused, id)
		}
	}
	return out, err
}

// The dead letters of a topic come from all services that consume it, and from no other service. If
// a service is down or not deployed, the response lists it, and the letters of the others.
func TestDeadLettersOfATopic(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	w.letters.add("payment", 9, 5, 1)
	w.letters.add("queue", 8)
	w.letters.add("stats", 7, 6, 4, 3)
	w.letters.add("ticket", 10)
	const path = "/api/v1/admin/dlq/reservation-events"
	list := func(query string) (ids []string, body map[string]any) {
		t.Helper()
		rec := w.do(http.MethodGet, path+query, "", admin)
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		body = jsonOf(t, rec)
		for _, item := range body["items"].([]any) {
			ids = append(ids, item.(map[string]any)["id"].(string))
		}
		return ids, body
	}
	ids, body := list("?limit=2")
	require.Equal(t, []string{"0-9", "0-8", "0-7", "0-6", "0-5"}, ids)
	require.Empty(t, body["unreachable"])
	sent, _ := w.letters["queue"].of("ListTopicDeadLetters")[0].msg.(*kafkav1.ListTopicDeadLettersRequest)
	require.Equal(t, int32(2), sent.GetLimit())
	require.Equal(t, "operator", sent.GetCaller().GetUserId())
	ids, body = list("?limit=2&cursor=" + body["nextCursor"].(string))
	require.Equal(t, []string{"0-4", "0-3", "0-1"}, ids)
	require.Empty(t, body["nextCursor"])
	require.Len(t, w.letters["queue"].of("ListTopicDeadLetters"), 1, "it had no more")
	require.Empty(t, w.letters["ticket"].of("ListTopicDeadLetters"))

	w.letters["queue"].down.Store(true)
	ids, body = list("")
	require.Equal(t, []string{"0-9", "0-7", "0-6", "0-5"}, ids)
	require.Equal(t, []any{"queue"}, body["unreachable"])
	w.letters["payment"].down.Store(true)
	w.letters["stats"].down.Store(true)
	require.Equal(t, "UNAVAILABLE", problemOf(t, w.do(http.MethodGet, path, "", admin))["code"], "nobody answers")

	for target, code := range map[string]string{
		"/api/v1/admin/dlq/some-events": "NOT_FOUND", path + "?cursor=x": "INVALID_CURSOR", path + "?cursor=ticket:1": "INVALID_CURSOR",
		path + "?cursor=payment:x": "INVALID_CURSOR", path + "?limit=101": "INVALID_REQUEST",
	} {
		require.Equal(t, code, problemOf(t, w.do(http.MethodGet, target, "", admin))["code"], target)
	}
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, path, "", w.session(alice)).Code)
}

// A redrive reaches the services with the letters. The next one continues where each has ended.
func TestRedriveOfATopic(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	w.letters.add("ticket", 9, 5, 1)
	w.letters.add("stats", 8, 2)
	redrive := func(body string) map[string]any {
		t.Helper()
		rec := w.do(http.MethodPost, "/api/v1/admin/dlq/payment-events/redrive", body, admin)
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		return jsonOf(t, rec)
	}
	out := redrive("")
	require.Equal(t, []any{"0-2", "0-8", "0-1", "0-5"}, out["redriven"])
	require.Equal(t, true, out["more"])
	out = redrive(`{"cursor":"` + out["nextCursor"].(string) + `"}`)
	require.Equal(t, []any{"0-9"}, out["redriven"])
	require.Equal(t, false, out["more"])
	require.Equal(t, []any{}, out["refused"])

	out = redrive(`{"ids":["0-8","0-7","0-1"]}`)
	require.Equal(t, []any{"0-8", "0-1"}, out["redriven"])
	require.Equal(t, []any{"0-7"}, out["refused"])
	w.letters["stats"].down.Store(true)
	out = redrive(`{"ids":["0-8","0-1"]}`)
	require.Equal(t, []any{"0-1"}, out["redriven"])
	require.Equal(t, []any{"0-8"}, out["refused"])
	require.Equal(t, []any{"stats"}, out["unreachable"])
}

// Without worker and reward service, letters of Kafka topics are listed, those of SQS are 404.
func TestDeadLettersWithoutPromotions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withoutPromotions, withoutRewards)
	admin := w.session("operator", "admin")
	w.letters.add("stats", 3)
	for topic, missing := range map[string][]any{"request-events": {"reward"}, "payment-events": {}} {
		rec := w.do(http.MethodGet, "/api/v1/admin/dlq/"+topic, "", admin)
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		require.Equal(t, missing, jsonOf(t, rec)["unreachable"])
		require.Len(t, jsonOf(t, rec)["items"], 1)
	}
	for _, queue := range []string{"admissions", "requests"} {
		require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/admin/dlq/"+queue, "", admin).Code, queue)
	}
}
