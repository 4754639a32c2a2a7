// Package outbound sends the requests of the providers' clients: each once, within the limits of the
// account, through the proxy of the environment, and traced.
package outbound

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/payment"
)

// Options are the options of a Transport.
type Options struct {
	// Provider is the provider's name, for spans.
	Provider string
	// Endpoints are the requests that the client makes, as patterns of http.ServeMux. Each has a limit
	// of its own; others share one.
	Endpoints []string
	// Budget limits the requests; nil: there is no limit.
	Budget *budget.Budget
	// Limited reports whether an answer with status 429 means that there were too many requests, and
	// whether that was said of all requests or of this endpoint; nil: it does, of this endpoint.
	Limited func(headers http.Header, body []byte) (limited, inAll bool)
	// MaxAnswer is the most bytes of an answer that are read.
	MaxAnswer int64
	// Now and Base are set by tests only; nil: time.Now, and connections to the provider.
	Now  func() time.Time
	Base http.RoundTripper
}

// Transport is the http.RoundTripper of a client. It has no timeout: requests have the deadline of
// their context.
type Transport struct {
	opts      Options
	endpoints *http.ServeMux
}

// New returns a Transport.
func New(o Options) *Transport {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Base == nil {
		o.Base = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	t := &Transport{opts: o, endpoints: http.NewServeMux()}
	for _, pattern := range o.Endpoints {
		t.endpoints.HandleFunc(pattern, http.NotFound)
	}
	return t
}

// Endpoint returns the pattern of a request; "other" if the client has none for it.
func (t *Transport) Endpoint(r *http.Request) string {
	_, pattern := t.endpoints.Handler(r)
	return cmp.Or(pattern, "other")
}

// RoundTrip sends a request once, when its turn has come: net/http would repeat one with an
// Idempotency-Key. Errors: ErrNoTurn, ErrThrottled, ErrTooLate.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := otel.Tracer("urr.guru/services/payment/"+t.opts.Provider).
		Start(r.Context(), r.Method+" "+t.opts.Provider, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	endpoint := t.Endpoint(r)
	if t.opts.Budget != nil {
		if err := t.opts.Budget.Await(ctx, endpoint); err != nil {
			span.RecordError(err)
			return nil, err
		}
	}
	out := r.Clone(ctx)
	if err := setLimit(out, t.opts.Now); err != nil {
		return nil, err
	}
	out.GetBody = nil
	resp, err := t.opts.Base.RoundTrip(out)
	if err == nil {
		resp.Body = limited{io.LimitReader(resp.Body, t.opts.MaxAnswer), resp.Body}
		err = t.refusedAsTooMany(ctx, endpoint, resp)
	}
	if err != nil {
		span.RecordError(err)
		return nil, err
	}
	return resp, nil
}

// refusedAsTooMany returns ErrThrottled for an answer that says that there were too many requests.
func (t *Transport) refusedAsTooMany(ctx context.Context, endpoint string, resp *http.Response) error {
	if resp.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("read a refusal: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	tooMany, inAll := true, false
	if t.opts.Limited != nil {
		tooMany, inAll = t.opts.Limited(resp.Header, body)
	}
	if !tooMany {
		return nil
	}
	if t.opts.Budget != nil {
		t.opts.Budget.Throttled(ctx, endpoint, inAll)
	}
	return fmt.Errorf("%w: %s", payment.ErrThrottled, endpoint)
}

// CloseIdleConnections closes the idle connections. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.opts.Base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

type limited struct {
	io.Reader
	io.Closer
}
