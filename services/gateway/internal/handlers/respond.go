package handlers

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/coding"
	"urr.guru/services/gateway/internal/edge"
)

// Values of response headers, built once since polls are served in microseconds.
var (
	// sharedCacheControl lets a CDN keep a response that is the same for everybody for a second.
	sharedCacheControl = []string{"public, max-age=0, s-maxage=1"}
	jsonType           = []string{"application/json"}
)

// implicitLength is the longest body, in bytes, for which net/http sets Content-Length by itself
// ("under a few KB"). That costs less than setting it here.
const implicitLength = 1 << 10

// writeJSON responds with a body that is JSON already.
func writeJSON(w http.ResponseWriter, status int, cache []string, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = cache
	h["X-Content-Type-Options"] = edge.Nosniff
	if len(body) > implicitLength {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// WriteMessage responds with a message that caches must not keep.
func WriteMessage(w http.ResponseWriter, status int, m proto.Message) error {
	body, err := wire.Marshal(m)
	if err != nil {
		return err
	}
	writeJSON(w, status, edge.NoStore, body)
	return nil
}

// writeTagged responds with a body that is JSON already, or with 304 if the request has its etag.
func writeTagged(w http.ResponseWriter, request http.Header, etag, cache []string, body []byte) {
	w.Header()["Etag"] = etag
	if coding.Unchanged(request, etag[0]) {
		w.Header()["Cache-Control"] = cache
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, http.StatusOK, cache, body)
}

// withRedirect adds to an error of a service the page where the visitor gets what is missing, such
// as a token. It returns nil for nil.
func withRedirect(err error, event string) error {
	if err == nil {
		return nil
	}
	e := errs.From(err)
	switch {
	case e.Metadata["redirectTo"] != "":
		return e
	case e.Reason == errs.ErrVWRTokenRequired.Reason:
		return e.With("redirectTo", "/vwr/"+event)
	case e.Reason == errs.ErrQueueTokenRequired.Reason, e.Reason == errs.ErrSlotEnded.Reason, e.Reason == errs.ErrWrongEvent.Reason:
		return e.With("redirectTo", "/queue/"+event)
	default:
		return e
	}
}
