// Package api serves the pass-through routes: it converts JSON to one RPC and its response to JSON,
// as bound by the google.api.http rules of the services. The edge has matched and checked the route
// before; the router of grpc-gateway only converts.
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

// ErrorWriter responds with an error.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, q *edge.Request, err error)

// CompleteFunc may set members of a response that only the gateway knows. It is called before a
// response is written.
type CompleteFunc func(ctx context.Context, rpc string, m proto.Message)

// Passthrough is one handler for all pass-through routes.
type Passthrough struct {
	Mux *runtime.ServeMux
}

// New makes a Passthrough; the services' generated handlers are registered on its Mux.
func New(fail ErrorWriter, complete CompleteFunc) *Passthrough {
	noHeader := func(string) (string, bool) { return "", false }
	return &Passthrough{Mux: runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, Marshaler{}),
		// No client header becomes metadata of a call, and no metadata becomes a response header.
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			q := edge.RequestFrom(ctx)
			if q.BodyErr != nil { // the generated code has dropped its fields
				err = q.BodyErr
			}
			fail(w, originalRequest(w, r), q, err)
		}),
		runtime.WithRoutingErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			// The edge knows the route but the router does not: the service is not registered.
			fail(w, originalRequest(w, r), edge.RequestFrom(ctx), errs.ErrNotFound)
		}),
		runtime.WithForwardResponseOption(func(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
			rpc, _ := runtime.RPCMethod(ctx)
			complete(ctx, rpc, m)
			setETag(w, m)
			if q := edge.RequestFrom(ctx); q.Route.Status != http.StatusOK {
				w.WriteHeader(q.Route.Status)
			}
			return nil
		}),
	)}
}

// setETag moves a message's member etag, which is not quoted, to the header ETag.
func setETag(w http.ResponseWriter, m proto.Message) {
	t, ok := m.(interface{ GetEtag() string })
	if !ok || t.GetEtag() == "" {
		return
	}
	w.Header().Set("ETag", `"`+t.GetEtag()+`"`)
	r := m.ProtoReflect()
	r.Clear(r.Descriptor().Fields().ByName("etag"))
}

// Handle is an edge.Handler. The router gets a new request with the normalised path and the query,
// but without the headers, since grpc-gateway would read time-outs and metadata from them.
func (p *Passthrough) Handle(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	ctx := caller.WithOnly(r.Context(), q.Caller(), q.Route.RPC)
	inner := (&http.Request{
		Method: q.Route.Method, URL: &url.URL{Path: q.Path, RawQuery: r.URL.RawQuery}, Header: http.Header{},
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Body: &requestBody{q: q},
	}).WithContext(ctx)
	w.Header().Set("Cache-Control", "no-store")
	p.Mux.ServeHTTP(&responseWriter{ResponseWriter: w, original: r}, inner)
	return nil
}

// originalRequest returns the request as received, whose headers select the language of an error.
func originalRequest(w http.ResponseWriter, inner *http.Request) *http.Request {
	if a, ok := w.(*responseWriter); ok {
		return a.original
	}
	return inner
}

// responseWriter drops the body of a 204, which net/http would report as an error.
type responseWriter struct {
	http.ResponseWriter

	original *http.Request
	empty    bool
}

func (a *responseWriter) WriteHeader(status int) {
	if a.empty = status == http.StatusNoContent; a.empty {
		a.Header().Del("Content-Type")
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *responseWriter) Write(b []byte) (int, error) {
	if a.empty {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}
