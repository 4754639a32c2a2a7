// Package webhook sends notices by HTTP, signed as Standard Webhooks.
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"urr.guru/services/ticket/internal/notice"
)

const (
	// maxAnswer is how many bytes of an answer are read, so that its connection can be used again.
	maxAnswer = 4 << 10
	// maxError is the most bytes of an error's text that are stored.
	maxError = 200
	idleFor  = time.Minute
)

// Sender sends notices to webhooks.
type Sender struct {
	client *http.Client
	now    func() time.Time
}

// Options are the optional parts of a Sender.
type Options struct {
	// Private allows private addresses and any port, for development.
	Private bool
	// TLS replaces the configuration of TLS in tests; nil in production.
	TLS *tls.Config
	// Now replaces the clock in tests; nil in production.
	Now func() time.Time
}

// NewSender makes a Sender. It checks addresses when it dials them, so that no name can resolve to
// a private one. It does not follow redirects, and uses no proxy.
func NewSender(o Options) *Sender {
	dialer := &net.Dialer{}
	if !o.Private {
		dialer.Control = ssrf.New(ssrf.WithAnyPort()).Safe
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{now: o.Now, client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: o.TLS, IdleConnTimeout: idleFor, MaxIdleConnsPerHost: 4, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxAnswer * 4,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes the idle connections.
func (s *Sender) Close(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// Lane returns the lane that sends notices to a webhook.
func (s *Sender) Lane(w notice.Webhook) notice.Lane {
	return notice.Lane{ID: w.ID, Name: w.Name, Send: func(ctx context.Context, d *notice.Delivery) notice.Outcome {
		status, err := s.send(ctx, &w, &d.Notice)
		o := notice.Outcome{Status: status}
		if err != nil {
			o.Error = describe(err)
		}
		return o
	}}
}

func (s *Sender) send(ctx context.Context, w *notice.Webhook, n *notice.Notice) (status int, err error) {
	body, id, now := n.Body(), n.ID.String(), s.now()
	signatures, err := sign(w.Secrets(now), id, now, body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "URR-Webhook/1")
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	res, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // only the status matters
	if res.StatusCode/100 != 2 {
		return res.StatusCode, fmt.Errorf("the answer was %s", strconv.Itoa(res.StatusCode))
	}
	return res.StatusCode, nil
}

// sign returns a signature by each secret, separated by spaces.
func sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", errors.New("the secret cannot be read") // without the secret
		}
		if signatures[i], err = w.Sign(id, at, body); err != nil {
			return "", err
		}
	}
	return strings.Join(signatures, " "), nil
}

// describe returns the text of an error as operators see it.
func describe(err error) string {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // without method and address
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = "no answer in time"
	case errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrProhibitedIP):
		text = "the address is not public"
	}
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
