package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"urr.guru/scripts/platform"
)

// maxAnswer is the most bytes that a response body may have; a map of 50,000 seats is far smaller.
const maxAnswer = 8 << 20

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
	return &API{
		base: strings.TrimRight(base, "/"),
		rec:  rec,
		http: &http.Client{
			Transport:     transport,
			Timeout:       30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (a *API) Close() { a.http.CloseIdleConnections() }

// Answer is a completely read response.
type Answer struct {
	Status  int
	Body    []byte
	Cookies []*http.Cookie
	Header  http.Header
}

func (a *Answer) OK() bool { return a.Status/100 == 2 }

// Problem is the part of a refusal (RFC 9457, problem details) that visitors use.
type Problem struct {
	Code string `json:"code"`
	// AsksAt is when the visitor may ask for a position, epoch ms; 0 if the refusal is another one.
	AsksAt int64 `json:"asksAt,string"`
}

// Problem decodes the problem details of a refusal. For other responses it returns the zero value.
func (a *Answer) Problem() Problem {
	var p Problem
	if a.Status >= 400 {
		_ = json.Unmarshal(a.Body, &p) // a body that is not a problem gives the zero value
	}
	return p
}

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
	s.keepCookies(ans.Cookies)
	return ans, nil
}

// do sends a request, reads the response and records it.
func (s *Session) do(req *http.Request, step Step) (*Answer, error) {
	start := time.Now()
	res, err := s.api.http.Do(req)
	if err != nil {
		if req.Context().Err() == nil {
			s.api.rec.Add(step, time.Since(start), err.Error())
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	ans := &Answer{Status: res.StatusCode, Body: b, Cookies: res.Cookies(), Header: res.Header}
	failure := ""
	switch {
	case err != nil:
		failure = err.Error()
	case res.StatusCode >= 500:
		failure = fmt.Sprintf("%d %s", res.StatusCode, firstLine(b))
	}
	s.api.rec.Add(step, time.Since(start), failure)
	if err != nil {
		return nil, err
	}
	return ans, nil
}

// maxTries is the most attempts of a request during an overload. With a pause of a second after
// each, they take at least half a minute.
const maxTries = 30

// callRepeatedly does what Call does, and repeats the request while the platform is overloaded. The
// request must be safe to repeat.
func (s *Session) callRepeatedly(ctx context.Context, step Step, method, path string, body any) (*Answer, error) {
	for n := 1; ; n++ {
		ans, err := s.Call(ctx, step, method, path, body, nil)
		overloaded := err == nil && (ans.Status == http.StatusServiceUnavailable || ans.Status == http.StatusGatewayTimeout)
		if !overloaded || n == maxTries || !loop.Sleep(ctx, time.Second) {
			return ans, err
		}
	}
}

// Submit requests a page of another site, with a form if it is a POST. It follows no redirect.
func (s *Session) Submit(ctx context.Context, step Step, method, page string, form url.Values) (*Answer, error) {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, page, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return s.do(req, step)
}

func (s *Session) request(ctx context.Context, method, path string, body any, header map[string]string) (*http.Request, error) {
	payload, contentType, err := encode(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.api.base+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Forwarded-For", s.address)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
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

// csvFile is a body that is sent as it is.
type csvFile string

// encode returns a request's content and its type: nothing for nil, CSV for a file, otherwise JSON.
func encode(body any) (io.Reader, string, error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case csvFile:
		return strings.NewReader(string(b)), "text/csv", nil
	default:
		raw, err := json.Marshal(b)
		return bytes.NewReader(raw), "application/json", err
	}
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
