package outbound_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

// answering returns a transport whose server answers with a status and counts the requests that came
// with their body.
func answering(t *testing.T, status int, o outbound.Options) (client *http.Client, url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			requests.Add(1)
		}
		w.Header().Set("Reason", r.Header.Get("Reason"))
		w.WriteHeader(status)
		_, _ = w.Write([]byte("an answer"))
	}))
	t.Cleanup(server.Close)
	o.Provider, o.MaxAnswer = "test", 4
	client = &http.Client{Transport: outbound.New(o)}
	t.Cleanup(client.CloseIdleConnections)
	return client, server.URL, requests
}

func send(ctx context.Context, t *testing.T, client *http.Client, method, url, reason string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte("a body")))
	require.NoError(t, err)
	req.Header.Set("Reason", reason)
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	tr := outbound.New(outbound.Options{Endpoints: []string{"GET /v1/x/{id}", "POST /v1/x/{id}/y", "POST /v1/x"}})
	for request, want := range map[string]string{
		"GET /v1/x/1": "GET /v1/x/{id}", "POST /v1/x/a%2Fb/y": "POST /v1/x/{id}/y", "POST /v1/x": "POST /v1/x", "GET /v1/other": "other", "DELETE /v1/x": "other",
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://provider"+path, http.NoBody)
		require.NoError(t, err)
		require.Equal(t, want, tr.Endpoint(req), request)
	}
}

// An answer is read up to its limit.
func TestAnswersAreLimited(t *testing.T) {
	t.Parallel()
	client, url, _ := answering(t, http.StatusOK, outbound.Options{})
	resp, err := send(t.Context(), t, client, http.MethodPost, url, "")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "an a", string(body))
}

// A refusal of too many requests is an error of its own. Another answer with its status is passed on.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	client, url, _ := answering(t, http.StatusTooManyRequests, outbound.Options{
		Limited: func(h http.Header, body []byte) (limited, inAll bool) {
			return h.Get("Reason") != "" && string(body) == "an a", false
		},
	})
	_, err := send(t.Context(), t, client, http.MethodPost, url, "rate")
	require.ErrorIs(t, err, payment.ErrThrottled)
	resp, err := send(t.Context(), t, client, http.MethodPost, url, "")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "an a", string(body))
}

// The body of a request is not sent after its time.
func TestRequestsAreSentInTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	client, url, requests := answering(t, http.StatusOK, outbound.Options{Now: func() time.Time { return now }})
	_, err := send(outbound.SentUntil(t.Context(), now), t, client, http.MethodPost, url, "")
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
	_, err = send(outbound.SentUntil(t.Context(), now.Add(-1)), t, client, http.MethodPost, url, "")
	require.ErrorIs(t, err, outbound.ErrTooLate)
	require.EqualValues(t, 1, requests.Load())
}
