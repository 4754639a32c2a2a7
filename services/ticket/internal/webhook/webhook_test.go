package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/webhook"
)

const (
	newSecret    = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	formerSecret = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4"
)

var sentAt = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

func delivery() *notice.Delivery {
	return &notice.Delivery{Notice: notice.Notice{ID: uuid.Max, Type: notice.EventPostponed, Data: []byte(`{"eventId": "e"}`), CreatedAt: sentAt}}
}

func TestBothSecretsSignWhileOneIsReplaced(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s := webhook.NewSender(webhook.Options{
		Private: true, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Now: func() time.Time { return sentAt },
	})
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	hook := notice.Webhook{URL: server.URL, Secret: newSecret, FormerSecret: formerSecret, FormerUntil: sentAt.Add(time.Second)}
	verify := func(secret string) error {
		v, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		return v.VerifyIgnoringTimestamp(body, header)
	}
	require.Equal(t, notice.Outcome{Status: http.StatusOK}, s.Lane(hook).Send(t.Context(), delivery()))
	require.JSONEq(t, `{"type": "EVENT_POSTPONED", "timestamp": "2041-03-14T19:00:00.000Z", "data": {"eventId": "e"}}`, string(body))
	require.Equal(t, uuid.Max.String(), header.Get("webhook-id"))
	require.Equal(t, "2246900400", header.Get("webhook-timestamp"))
	require.NoError(t, verify(newSecret))
	require.NoError(t, verify(formerSecret))

	hook.FormerUntil = sentAt
	require.Equal(t, notice.Outcome{Status: http.StatusOK}, s.Lane(hook).Send(t.Context(), delivery()))
	require.NoError(t, verify(newSecret))
	require.Error(t, verify(formerSecret))
}

// A host name that resolves to a private address gets no request, and redirects are not followed.
func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		requests++
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	s := webhook.NewSender(webhook.Options{})
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.0.0.1", "169.254.169.254", "192.168.1.1", "[fd00::1]", "[fe80::1]", "100.64.0.1"} {
		o := s.Lane(notice.Webhook{URL: "http://" + host + ":" + address.Port(), Secret: newSecret}).Send(t.Context(), delivery())
		require.Equal(t, notice.Outcome{Error: "the address is not public"}, o, host)
	}
	require.Zero(t, requests)

	unrestricted := webhook.NewSender(webhook.Options{Private: true})
	t.Cleanup(func() { require.NoError(t, unrestricted.Close(context.Background())) })
	o := unrestricted.Lane(notice.Webhook{URL: server.URL, Secret: newSecret}).Send(t.Context(), delivery())
	require.Equal(t, notice.Outcome{Status: http.StatusFound, Error: "the answer was 302"}, o)
	require.Equal(t, 1, requests)
	server.Close()
	o = unrestricted.Lane(notice.Webhook{URL: server.URL, Secret: newSecret}).Send(t.Context(), delivery())
	require.NotEmpty(t, o.Error)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	require.Equal(t, notice.Outcome{Error: "no answer in time"}, unrestricted.Lane(notice.Webhook{URL: server.URL, Secret: newSecret}).Send(late, delivery()))
}
