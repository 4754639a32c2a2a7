package handlers

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
)

// The values of the headers are made once, as polls are answered in microseconds. Nothing changes them in place: http.Header replaces a
// slice, or appends to one without room.
var (
	noStore = []string{"no-store"}
	// shared is what a CDN may keep for a second: the same answer for everybody.
	shared       = []string{"public, max-age=0, s-maxage=1"}
	jsonType     = []string{"application/json"}
	nosniff      = []string{"nosniff"}
	lengthValues = lengths(512)
)

// lengths are the values of Content-Length below n.
func lengths(n int) [][]string {
	values := make([][]string, n)
	for i := range values {
		values[i] = []string{strconv.Itoa(i)}
	}
	return values
}

// writeJSON answers with a body that is JSON already.
func writeJSON(w http.ResponseWriter, status int, cache []string, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = cache
	h["X-Content-Type-Options"] = nosniff
	if len(body) < len(lengthValues) {
		h["Content-Length"] = lengthValues[len(body)]
	} else {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone is no error of ours
}

// writeMessage answers with a message nobody else may keep.
func writeMessage(w http.ResponseWriter, status int, m proto.Message) error {
	body, err := wire.Marshal(m)
	if err != nil {
		return err
	}
	writeJSON(w, status, noStore, body)
	return nil
}

// unchanged reports whether the client has what etag names (If-None-Match compares weakly, RFC 9110 §13.1.2).
func unchanged(h http.Header, etag string) bool {
	for _, line := range h["If-None-Match"] {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
			if part == etag || part == "*" {
				return true
			}
		}
	}
	return false
}

// withRedirect adds to a refusal by queue the path to send the person to, which queue does not know; nil stays nil.
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
