package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
)

// failingConn is a connection whose unary calls are handled by invoke; its streams are unchanged.
type failingConn struct {
	grpc.ClientConnInterface

	invoke func(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error
}

func (f failingConn) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	return f.invoke(ctx, method, in, out, opts...)
}

// libraryText is an error text of a client library, which must not be shown to clients.
const libraryText = `connection error: desc = "transport: Error while dialing: dial tcp 10.1.2.3:9000: connect: connection refused"`

// withFailingServices makes the unary calls to every service fail.
func withFailingServices(invoke func(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error) option {
	return func(_ *app.Config, s *app.Services) {
		for _, conn := range []*grpc.ClientConnInterface{&s.VWR, &s.Queue, &s.Ticket, &s.Payment, &s.Stats, &s.Reward, &s.Ingest, &s.Worker} {
			*conn = failingConn{*conn, invoke}
		}
	}
}

// requireCatalogueSentences calls every route and compares the errors with the catalogue of errors.
func (w *fixture) requireCatalogueSentences(failure string) {
	w.t.Helper()
	visitor, _ := w.visitor()
	all := w.buyer(calm).with("Cookie", visitor["Cookie"]).with("Idempotency-Key", "key-1").with("Accept", "application/json")
	refusals := 0
	for _, r := range w.gateway.Routes() {
		if r.ID == "page.openapi" {
			continue // it calls no service, and each gateway takes long to make it
		}
		c := all
		if r.Access == edge.Admin || r.Access == edge.Staff {
			c = w.session("operator", "admin")
		}
		rec := w.do(r.Method, target(r, calm), bodyFor(r, calm), c)
		if rec.Code < 400 || r.ID == "page.asset" { // a missing file gives plain text
			continue
		}
		refusals++
		require.NotContains(w.t, rec.Body.String(), "dial tcp", "%s: %s", failure, r)
		doc := problemOf(w.t, rec)
		catalogued, ok := errs.Lookup(fmt.Sprint(doc["code"]))
		require.True(w.t, ok, "%s: %s: %s", failure, r, rec.Body)
		require.Equal(w.t, catalogued.Message, doc["error"], "%s: %s", failure, r)
	}
	require.Greater(w.t, refusals, 20, failure)
}

// Whatever error text a service or its client returns, clients get the sentence of the catalogue.
func TestErrorsUseCatalogueSentences(t *testing.T) {
	t.Parallel()
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run("grpc's own "+code.String(), func(t *testing.T) {
			t.Parallel()
			newFixture(t, withFailingServices(func(context.Context, string, any, any, ...grpc.CallOption) error {
				return status.Error(code, libraryText)
			})).requireCatalogueSentences(code.String())
		})
		t.Run("a service's "+code.String(), func(t *testing.T) {
			t.Parallel()
			// A status from a service keeps its reason; its text may be anything.
			st, err := status.New(code, libraryText).WithDetails(&errdetails.ErrorInfo{Reason: errs.ErrUnavailable.Reason, Domain: errs.Domain})
			require.NoError(t, err)
			newFixture(t, withFailingServices(func(context.Context, string, any, any, ...grpc.CallOption) error {
				return fmt.Errorf("list: %w", st.Err())
			})).requireCatalogueSentences(code.String())
		})
	}
}

// Clients learn no detail about an unreachable service.
func TestUnreachableService(t *testing.T) {
	t.Parallel()
	dead, err := rpc.Dial(rpc.Gateway, "ticket", rpc.Peer{Addr: "127.0.0.1:1", Key: "a-key-of-at-least-thirty-two-bytes!"},
		rpc.WithTimeout(time.Second), rpc.WithGRPC(grpc.WithChainUnaryInterceptor(caller.SetCallerInterceptor)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = dead.Close() })
	w := newFixture(t, withFailingServices(dead.Invoke))
	w.requireCatalogueSentences("dead")
	rec := w.do(http.MethodGet, "/api/v1/events/calm", "", credentials{"Accept": "application/json"})
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
	require.Equal(t, errs.ErrUnavailable.Message, doc["error"])
}
