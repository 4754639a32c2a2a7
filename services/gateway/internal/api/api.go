// Package api serves the pass-through routes, which the google.api.http rules of the services
// define. It converts a request's JSON to one RPC, and the RPC's response to JSON. Package edge has
// matched and checked the route before.
package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/absence"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/language"
)

// ErrorWriter responds to a request with an error.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, q *edge.Request, err error)

// CompleteFunc may set those fields of an RPC's response whose values only the gateway knows. It is
// called before the response is written.
type CompleteFunc func(ctx context.Context, rpc string, m proto.Message)

// Passthrough is the handler of all pass-through routes. Services register their RPCs on Mux.
type Passthrough struct {
	Mux *runtime.ServeMux

	// absent has the errors of public pages that do not exist, by path and query.
	absent absence.Cache[string]
}

// New makes a Passthrough that responds to errors with fail, and calls complete on each response.
func New(fail ErrorWriter, complete CompleteFunc) (*Passthrough, error) {
	noHeader := func(string) (string, bool) { return "", false }
	absent, err := absence.New[string](nil)
	if err != nil {
		return nil, err
	}
	return &Passthrough{absent: absent, Mux: runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, Marshaler{}),
		// No client header becomes metadata of a call, and no metadata becomes a response header.
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			q := edge.RequestFrom(ctx)
			if q.BodyErr != nil { // the generated code keeps only the text of this error
				err = q.BodyErr
			}
			if isPublicPage(q) {
				err = absent.Note(pageKey(r, q), err)
			}
			fail(w, originalRequest(w, r), q, err)
		}),
		runtime.WithRoutingErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			// Package edge has the route, but the router does not: the service is not registered.
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
	)}, nil
}

// isPublicPage reports whether the response is the same for every caller.
func isPublicPage(q *edge.Request) bool {
	return q.Route.Access == edge.Public && q.Route.Method == http.MethodGet
}

// maxPageKey is the longest key of a page, in bytes. For a longer address, the key lacks the query.
const maxPageKey = 256

// pageKey returns the key by which the error of a page that does not exist is cached.
func pageKey(r *http.Request, q *edge.Request) string {
	if key := q.Path + "?" + r.URL.RawQuery; len(key) <= maxPageKey {
		return key
	}
	return q.Path
}

// setETag moves the field etag of a response to the header ETag, and quotes it there.
func setETag(w http.ResponseWriter, m proto.Message) {
	t, ok := m.(interface{ GetEtag() string })
	if !ok || t.GetEtag() == "" {
		return
	}
	w.Header().Set("ETag", `"`+t.GetEtag()+`"`)
	r := m.ProtoReflect()
	r.Clear(r.Descriptor().Fields().ByName("etag"))
}

// Handle serves a request of a pass-through route. The router gets a new request with the cleaned
// path and the query. It gets no headers, since grpc-gateway would read time-outs and metadata
// there.
func (p *Passthrough) Handle(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	if isPublicPage(q) {
		if err := p.absent.Check(pageKey(r, q)); err != nil {
			return err
		}
	}
	c := q.Caller()
	if q.Route.Method == http.MethodPost && q.Session != nil { // for e-mails about the user's tickets
		c.Language = language.Of(r.Header)
	}
	ctx := caller.WithOnly(r.Context(), c, q.Route.RPC)
	inner := (&http.Request{
		Method: q.Route.Method, URL: &url.URL{Path: q.Path, RawQuery: r.URL.RawQuery}, Header: http.Header{},
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Body: &requestBody{q: q},
	}).WithContext(ctx)
	w.Header().Set("Cache-Control", "no-store")
	p.Mux.ServeHTTP(&responseWriter{ResponseWriter: w, original: r}, inner)
	return nil
}

// originalRequest returns the client's own request. Its headers select the language of an error.
func originalRequest(w http.ResponseWriter, inner *http.Request) *http.Request {
	if a, ok := w.(*responseWriter); ok {
		return a.original
	}
	return inner
}

// responseWriter drops the body of a response with status 204, since net/http returns an error for
// such a body.
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
