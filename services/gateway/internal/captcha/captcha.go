// Package captcha asks a captcha provider whether a visitor has passed its test. Any provider works
// that has the call siteverify: hCaptcha, reCAPTCHA, Turnstile, or a service of the operator's own.
package captcha

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/config"
)

const (
	// timeout is the time limit of a call. A provider that hangs must not use up the request's time.
	timeout = 3 * time.Second
	// maxCalls is the most calls in flight. Further calls wait, but no longer than timeout.
	maxCalls = 64
	// maxToken is the longest token, and maxResponse the longest answer of the provider, in bytes.
	maxToken    = 4096
	maxResponse = 64 << 10
)

// Settings are those of the captcha provider.
type Settings struct {
	// VerifyURL is the provider's address for verifying the token of a visitor who has passed the
	// test, as https://provider.example/siteverify; empty: nobody is tested.
	VerifyURL string `env:"CAPTCHA_VERIFY_URL"`
	// Secret is the platform's secret at the provider; required with CAPTCHA_VERIFY_URL.
	Secret config.Secret `env:"CAPTCHA_SECRET"`
	// Page is the operator's page with the provider's test, to which the waiting room sends visitors: a
	// URL or a path; required with CAPTCHA_VERIFY_URL.
	Page string `env:"CAPTCHA_PAGE"`
	// FailOpen gives positions without a test while the provider does not answer. Otherwise nobody
	// gets a position then, since programs could wait for such a moment.
	FailOpen bool `env:"CAPTCHA_FAIL_OPEN"`
}

// Validate checks the settings that CAPTCHA_VERIFY_URL requires: all are set and well-formed.
func (s *Settings) Validate() error {
	if s.VerifyURL == "" {
		return nil
	}
	if u, err := url.Parse(s.VerifyURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return config.Invalid("CAPTCHA_VERIFY_URL", s.VerifyURL, "must be a URL as https://provider.example/siteverify")
	}
	if s.Secret == "" {
		return config.Missing("CAPTCHA_SECRET", "must be the platform's secret at the provider, with CAPTCHA_VERIFY_URL")
	}
	if u, err := url.Parse(s.Page); err != nil || u.Fragment != "" || !strings.HasPrefix(s.Page, "https://") && !strings.HasPrefix(s.Page, "/") {
		return config.Invalid("CAPTCHA_PAGE", s.Page, "must be a path, or a URL as https://tickets.example/test, with CAPTCHA_VERIFY_URL")
	}
	return nil
}

// Provider verifies tokens at a captcha provider. It is safe for concurrent use.
type Provider struct {
	url    string
	secret atomic.Pointer[string]
	client *http.Client
}

// New makes a Provider; nil if no VerifyURL is set.
func New(s Settings) *Provider {
	if s.VerifyURL == "" {
		return nil
	}
	p := &Provider{url: s.VerifyURL, client: &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{MaxConnsPerHost: maxCalls, MaxIdleConnsPerHost: maxCalls, IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment},
		// A redirect would send the secret to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	p.SetSecret(s.Secret.Reveal())
	return p
}

// SetSecret replaces the secret of Settings. It may be called while tokens are verified.
func (p *Provider) SetSecret(secret string) { p.secret.Store(&secret) }

// Verify asks the provider whether the token proves that a visitor with this address has passed the
// test. It returns an error if the provider has not said yes or no.
func (p *Provider) Verify(ctx context.Context, token string, address netip.Addr) (bool, error) {
	if token == "" || len(token) > maxToken {
		return false, nil
	}
	form := url.Values{"secret": {*p.secret.Load()}, "response": {token}}
	if address.IsValid() {
		form.Set("remoteip", address.String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(form.Encode()))
	if err != nil {
		return false, fmt.Errorf("challenge provider: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := p.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("challenge provider: %w", err)
	}
	defer res.Body.Close()
	var answer struct {
		Success *bool `json:"success"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxResponse)).Decode(&answer)
	if err != nil || res.StatusCode != http.StatusOK || answer.Success == nil {
		return false, fmt.Errorf("challenge provider: status %d, no verdict", res.StatusCode)
	}
	return *answer.Success, nil
}
