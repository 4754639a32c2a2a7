// Package fetch sends HTTP requests to the platform's processes and to fakes of others, and reads
// each response whole. Its clients follow no redirect.
package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is the most bytes that a body may have; a map of 50,000 seats is far smaller.
const maxAnswer = 8 << 20

// Answer is a response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// OK reports whether the status is 2xx.
func (a *Answer) OK() bool { return a.Status/100 == 2 }

// Overloaded reports whether a status means that the platform is overloaded: 503 (refused) or 504 (no
// answer in time).
func Overloaded(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

func (a *Answer) Overloaded() bool { return Overloaded(a.Status) }

// Decode decodes a JSON body.
func (a *Answer) Decode(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("answer %d %q: %w", a.Status, a.Body, err)
	}
	return nil
}

// Cookies returns the cookies that the response sets.
func (a *Answer) Cookies() []*http.Cookie { return (&http.Response{Header: a.Header}).Cookies() }

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

// Code returns the error code of a refusal; "" if the answer has none.
func (a *Answer) Code() string { return a.Problem().Code }

// NewClient returns a client with a time limit for each request. jar may be nil.
func NewClient(transport http.RoundTripper, jar http.CookieJar, limit time.Duration) *http.Client {
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CSV is a body that is sent as it is.
type CSV string

// NewRequest makes a request that accepts JSON. The body is nothing for nil, a form for url.Values, a
// file for CSV, JSON as it is for a string or bytes, otherwise the value as JSON.
func NewRequest(ctx context.Context, method, address string, body any) (*http.Request, error) {
	contentType, content := "application/json", []byte(nil)
	switch b := body.(type) {
	case nil:
		contentType = ""
	case url.Values:
		contentType, content = "application/x-www-form-urlencoded", []byte(b.Encode())
	case CSV:
		contentType, content = "text/csv", []byte(b)
	case string:
		content = []byte(b)
	case []byte:
		content = b
	default:
		var err error
		if content, err = json.Marshal(b); err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, address, err)
		}
	}
	var reader io.Reader
	if contentType != "" {
		reader = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req, nil
}

// Send sends a request. It returns an error only if there is no complete response.
func Send(client *http.Client, req *http.Request) (*Answer, error) {
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: body}, nil
}

// Call makes and sends a request. client may be nil.
func Call(ctx context.Context, client *http.Client, method, address string, body any) (*Answer, error) {
	req, err := NewRequest(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	if client == nil {
		client = NewClient(nil, nil, 0)
	}
	return Send(client, req)
}

// Get returns the body at a URL. A status other than 2xx is an error.
func Get(ctx context.Context, address string) ([]byte, error) {
	a, err := Call(ctx, nil, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if !a.OK() {
		return nil, fmt.Errorf("GET %s: %d: %s", address, a.Status, strings.TrimSpace(string(a.Body)))
	}
	return a.Body, nil
}
