package harness

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
)

// Client calls the gateway as one visitor, with its own cookies and IP address.
type Client struct {
	p      *Platform
	http   *http.Client
	base   string
	header http.Header
}

// Answer is a response of the gateway.
type Answer = fetch.Answer

// Visitor returns a client of the gateway's replica 0 that is not signed in and has an IP address
// of its own.
func (p *Platform) Visitor() *Client {
	p.tb.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	client := fetch.NewClient(&http.Transport{MaxIdleConnsPerHost: 8}, jar, 30*time.Second)
	p.tb.Cleanup(client.CloseIdleConnections)
	return &Client{
		p: p, http: client, base: "http://" + p.Service(platform.Gateway).Addr(0),
		header: http.Header{"X-Forwarded-For": {platform.VisitorAddress(p.visitors.Add(1))}},
	}
}

// Client returns a client of the gateway's replica 0, signed in as a user with the given roles.
func (p *Platform) Client(user string, roles ...string) *Client {
	p.tb.Helper()
	return p.Visitor().With("Authorization", "Bearer "+p.SessionToken(user, roles...))
}

func (p *Platform) Operator() *Client {
	p.tb.Helper()
	return p.Client("operator", "admin")
}

// With returns a client for the same visitor that sends a header with every call; if the value is
// empty, it no longer sends that header.
func (c *Client) With(name, value string) *Client {
	other := *c
	other.header = maps.Clone(c.header)
	if value == "" {
		other.header.Del(name)
	} else {
		other.header.Set(name, value)
	}
	return &other
}

// AtReplica returns a client for the same visitor that calls the gateway's replica i.
func (c *Client) AtReplica(i int) *Client {
	other := *c
	other.base = "http://" + c.p.Service(platform.Gateway).Addr(i)
	return &other
}

// Call sends a request to the gateway. body is sent as JSON unless it is nil, []byte or string. It
// returns an error only if there is no response: a refusal is an Answer.
func (c *Client) Call(ctx context.Context, method, path string, body any) (*Answer, error) {
	req, err := fetch.NewRequest(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	return fetch.Send(c.http, req)
}

// overloadPause is the time before a request that was refused because of overload is repeated.
const overloadPause = time.Second

// RepeatWhileOverloaded repeats send while its answer says that the platform is overloaded, and
// returns the last answer. It stops when ctx ends, or shortly before the test's deadline. The
// platform may have executed a request without answering it, so all its requests must have the same
// Idempotency-Key.
func RepeatWhileOverloaded(ctx context.Context, tb testing.TB, send func() (*Answer, error)) (*Answer, error) {
	tb.Helper()
	run, cancel := testkit.Context(tb)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for {
		a, err := send()
		if err != nil || !a.Overloaded() || !loop.Sleep(run, overloadPause) { //nolint:contextcheck // run ends with ctx
			return a, err
		}
	}
}

// CallWhileOverloaded calls the gateway, and repeats the call while the platform is overloaded. If
// the call must take effect only once, set an Idempotency-Key by With: all repetitions have it.
// Without a response the test fails.
func (c *Client) CallWhileOverloaded(ctx context.Context, method, path string, body any) *Answer {
	c.p.tb.Helper()
	a, err := RepeatWhileOverloaded(ctx, c.p.tb, func() (*Answer, error) { return c.Call(ctx, method, path, body) })
	if err != nil {
		c.p.tb.Fatalf("harness: %s %s: %v", method, path, err)
	}
	return a
}

// MustCall calls the gateway as CallWhileOverloaded does, and fails the test unless the status is
// 2xx. It decodes the body into `into`, which may be nil.
func (c *Client) MustCall(ctx context.Context, method, path string, body, into any) *Answer {
	c.p.tb.Helper()
	a := c.CallWhileOverloaded(ctx, method, path, body)
	var err error
	if !a.OK() {
		err = fmt.Errorf("answered %d: %s", a.Status, a.Body)
	} else if into != nil {
		err = a.Decode(into)
	}
	if err != nil {
		c.p.tb.Fatalf("harness: %s %s: %v", method, path, err)
	}
	return a
}

// Assign asks for a position in the waiting room of an event, with a proof of work if needed.
func (c *Client) Assign(ctx context.Context, event string) (*Answer, error) {
	path := "/vwr-api/vwr/assign/" + event
	a, err := c.Call(ctx, http.MethodPost, path, nil)
	if err != nil || a.Code() != platform.ProofRequired {
		return a, err
	}
	if a, err = c.Call(ctx, http.MethodGet, platform.ChallengePath(event), nil); err != nil || a.Status != http.StatusOK {
		return a, err
	}
	proof, err := platform.Prove(ctx, a.Body)
	if err != nil {
		return nil, err
	}
	return c.With(platform.ProofHeader, proof).Call(ctx, http.MethodPost, path, nil)
}

func (p *Platform) SessionToken(user string, roles ...string) string {
	p.tb.Helper()
	now := time.Now()
	return p.sign(p.workspace.secrets.Session, claims.NewSession(user, roles, now, now.Add(time.Hour)))
}

// EntryToken returns a user's entry token, signed with the queue service's key. It creates no slot.
func (p *Platform) EntryToken(event, user, slot string, epoch int64, end time.Time) string {
	p.tb.Helper()
	return p.sign(p.workspace.secrets.EntryToken, claims.NewEntry(event, user, slot, epoch, end, time.Now()))
}

// Tier1Token returns a token for a position in a round, signed with the vwr service's key.
func (p *Platform) Tier1Token(event, visitor, request string, round, position int64) string {
	p.tb.Helper()
	return p.sign(p.workspace.secrets.VWRToken, claims.NewTier1(event, visitor, request, round, position, time.Now()))
}

func (p *Platform) sign(secret string, c jwt.Claims) string {
	p.tb.Helper()
	var signed string
	keys, err := token.ParseKeySet(config.Secret(secret))
	if err == nil {
		signed, err = keys.Sign(c)
	}
	if err != nil {
		p.tb.Fatalf("harness: %v", err)
	}
	return signed
}
