package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
)

// API is the crowd's HTTP client for the gateway. All visitors share its pool of keep-alive
// connections.
type API struct {
	base     string
	http     *http.Client
	rec      *Recorder
	browsers atomic.Uint32
}

// NewAPI returns a client for the gateway at base, such as http://127.0.0.1:8080.
func NewAPI(base string, rec *Recorder) *API {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
	return &API{base: strings.TrimRight(base, "/"), rec: rec, http: fetch.NewClient(transport, nil, 30*time.Second)}
}

func (a *API) Close() { a.http.CloseIdleConnections() }

// Answer is a response of the gateway.
type Answer = fetch.Answer

// Session is a browser with its IP address and credentials. One goroutine at a time may use it.
type Session struct {
	api     *API
	address string
	bearer  string
	cookies map[string]string
}

// NewSession returns a new browser without cookies. It has its own IP address, because gateways
// limit the number of new visitors per address.
func (a *API) NewSession() *Session {
	return &Session{api: a, address: platform.VisitorAddress(a.browsers.Add(1)), cookies: map[string]string{}}
}

// Address returns the IP address that the browser sends in X-Forwarded-For.
func (s *Session) Address() string { return s.address }

func (s *Session) Cookies() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(s.cookies)) {
		pairs = append(pairs, name+"="+s.cookies[name])
	}
	return strings.Join(pairs, "; ")
}

// Fork returns a second browser with the same cookies and token, like a second tab.
func (s *Session) Fork() *Session {
	return &Session{api: s.api, address: s.address, bearer: s.bearer, cookies: maps.Clone(s.cookies)}
}

// Call sends one request, without a body if body is nil, and reads the response. It returns an
// error only if there is no complete response.
func (s *Session) Call(ctx context.Context, step Step, method, path string, body any, header map[string]string) (*Answer, error) {
	req, err := s.request(ctx, method, path, body, header)
	if err != nil {
		return nil, err
	}
	ans, err := s.do(req, step)
	if err != nil {
		return nil, err
	}
	s.keepCookies(ans.Cookies())
	return ans, nil
}

// do sends a request, reads the response and records it.
func (s *Session) do(req *http.Request, step Step) (*Answer, error) {
	start := time.Now()
	ans, err := fetch.Send(s.api.http, req)
	failure := ""
	switch {
	case err != nil && req.Context().Err() != nil:
		return nil, err
	case err != nil:
		failure = err.Error()
	case ans.Status >= 500:
		failure = fmt.Sprintf("%d %s", ans.Status, firstLine(ans.Body))
	}
	s.api.rec.Add(step, time.Since(start), failure)
	return ans, err
}

// maxTries is the most attempts of a request during an overload. With a pause of a second after
// each, they take at least half a minute.
const maxTries = 30

// callRepeatedly does what Call does, and repeats the request while the platform is overloaded. The
// request must be safe to repeat.
func (s *Session) callRepeatedly(ctx context.Context, step Step, method, path string, body any) (*Answer, error) {
	for n := 1; ; n++ {
		ans, err := s.Call(ctx, step, method, path, body, nil)
		if err != nil || !ans.Overloaded() || n == maxTries || !loop.Sleep(ctx, time.Second) {
			return ans, err
		}
	}
}

// Submit requests a page of another site, with a form if it is a POST. It follows no redirect.
func (s *Session) Submit(ctx context.Context, step Step, method, page string, form url.Values) (*Answer, error) {
	var body any
	if method == http.MethodPost {
		body = form
	}
	req, err := fetch.NewRequest(ctx, method, page, body)
	if err != nil {
		return nil, err
	}
	return s.do(req, step)
}

func (s *Session) request(ctx context.Context, method, path string, body any, header map[string]string) (*http.Request, error) {
	req, err := fetch.NewRequest(ctx, method, s.api.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Forwarded-For", s.address)
	if s.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	for name, value := range s.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	return req, nil
}

func (s *Session) keepCookies(cookies []*http.Cookie) {
	for _, c := range cookies {
		if c.MaxAge < 0 || c.Value == "" {
			delete(s.cookies, c.Name)
			continue
		}
		s.cookies[c.Name] = c.Value
	}
}

// UseToken signs the browser in with the token of an existing session.
func (s *Session) UseToken(token string) { s.bearer = token }

const loginPath = "/api/v1/auth/dev-login"

// DevLogin signs the browser in by the development login, which needs no password.
func (s *Session) DevLogin(ctx context.Context, userID string, roles ...string) error {
	body := map[string]any{"userId": userID}
	if len(roles) > 0 {
		body["roles"] = roles
	}
	ans, err := s.callRepeatedly(ctx, StepLogin, http.MethodPost, loginPath, body)
	if err != nil {
		return fmt.Errorf("sign in %s: %w", userID, err)
	}
	return s.signIn(userID, ans)
}

// signIn stores the credentials that the response to a login contains.
func (s *Session) signIn(userID string, ans *Answer) error {
	if !ans.OK() {
		return fmt.Errorf("sign in %s: %d %s (the crowd needs a gateway with DEV_LOGIN=true)", userID, ans.Status, firstLine(ans.Body))
	}
	var out struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(ans.Body, &out); err != nil {
		return fmt.Errorf("sign in %s: %w", userID, err)
	}
	s.bearer = out.Token
	return nil
}

// retryAfter returns the delay in the header Retry-After of a refusal, or a second if it has none.
func retryAfter(a *Answer) time.Duration {
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return time.Second
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if len(line) > 300 {
		line = line[:300]
	}
	return string(line)
}
