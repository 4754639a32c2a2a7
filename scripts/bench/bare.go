package bench

import (
	"context"
	"io"
	"net/http"
)

// recorded is a response that the bare handler repeats.
type recorded struct {
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	Status int         `json:"status,omitempty"` // 0: 200
}

// serveBare is the baseline of most HTTP rows: a net/http server with the time-outs of the
// gateway's, whose handler only writes the response that it reads from in.
func serveBare(ctx context.Context, in io.Reader, out io.Writer) error {
	answer, in, err := configured[recorded](in)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, in, out, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, values := range answer.Header {
			h[name] = values
		}
		if answer.Status != 0 {
			w.WriteHeader(answer.Status)
		}
		if len(answer.Body) > 0 {
			_, _ = w.Write(answer.Body)
		}
	}))
}

// besideBare starts a bare server that repeats the row's response.
func besideBare(ctx context.Context, w *world, p poll) (*baseline, error) {
	answer, err := w.record(ctx, p.path(w.visitors[0]), w.visitors[0])
	if err != nil {
		return nil, err
	}
	server, err := startChild(ctx, bareArgument, answer)
	if err != nil {
		return nil, err
	}
	return &baseline{what: "a net/http handler that writes the same response", servers: []*child{server}}, nil
}
