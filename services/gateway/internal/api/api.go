// Package api serves the pass-through routes: JSON in, one RPC, JSON out, as the services' google.api.http rules bind them. The edge has
// matched and checked the route before; here the router of grpc-gateway is only the machinery behind it.
package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
)

// ErrorWriter answers with an error.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, q *edge.Request, err error)

// Answered is told of every answer before it is written, and may fill in what only the gateway knows.
type Answered func(ctx context.Context, rpc string, m proto.Message)

// Passthrough is one handler for all pass-through routes.
type Passthrough struct {
	Mux *runtime.ServeMux
}

// New makes a Passthrough; the services' generated handlers are registered on its Mux.
func New(fail ErrorWriter, answered Answered) *Passthrough {
	none := func(string) (string, bool) { return "", false }
	return &Passthrough{Mux: runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, Marshaler{}),
		// No header of a client's becomes metadata of a call, and none of a service's a header of an answer.
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			q := edge.RequestFrom(ctx)
			if q.BodyErr != nil { // what the generated code made of it has lost its fields
				err = q.BodyErr
			}
			fail(w, original(w, r), q, err)
		}),
		runtime.WithRoutingErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			// The edge knows the route and the router does not: a route was declared, but its service not registered.
			fail(w, original(w, r), edge.RequestFrom(ctx), errs.ErrNotFound)
		}),
		runtime.WithForwardResponseOption(func(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
			rpc, _ := runtime.RPCMethod(ctx)
			answered(ctx, rpc, m)
			tag(w, m)
			if q := edge.RequestFrom(ctx); q.Route.Status != http.StatusOK {
				w.WriteHeader(q.Route.Status)
			}
			return nil
		}),
	)}
}

// tag makes the header ETag of a message's member etag, which is bare and no member of the JSON.
func tag(w http.ResponseWriter, m proto.Message) {
	t, ok := m.(interface{ GetEtag() string })
	if !ok || t.GetEtag() == "" {
		return
	}
	w.Header().Set("ETag", `"`+t.GetEtag()+`"`)
	r := m.ProtoReflect()
	r.Clear(r.Descriptor().Fields().ByName("etag"))
}

// Handle is the edge.Handler of every pass-through route. The router gets a request of its own: the normalised path, the query, and
// nothing of the header, since grpc-gateway reads time-outs and metadata from it.
func (p *Passthrough) Handle(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	ctx := caller.WithOnly(r.Context(), q.Caller(), q.Route.RPC)
	inner := (&http.Request{
		Method: q.Route.Method, URL: &url.URL{Path: q.Path, RawQuery: r.URL.RawQuery}, Header: http.Header{},
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Body: &body{q: q},
	}).WithContext(ctx)
	w.Header().Set("Cache-Control", "no-store")
	p.Mux.ServeHTTP(&answer{ResponseWriter: w, original: r}, inner)
	return nil
}

// original is the request as it came, whose header says what language to answer in.
func original(w http.ResponseWriter, inner *http.Request) *http.Request {
	if a, ok := w.(*answer); ok {
		return a.original
	}
	return inner
}

// answer keeps the body of a 204 back, which net/http would report as an error.
type answer struct {
	http.ResponseWriter

	original *http.Request
	empty    bool
}

func (a *answer) WriteHeader(status int) {
	if a.empty = status == http.StatusNoContent; a.empty {
		a.Header().Del("Content-Type")
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.empty {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}
