package hot

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
)

const (
	noStore  = "no-store"
	jsonType = "application/json"
)

// writeJSON answers with a body that is JSON already.
func writeJSON(w http.ResponseWriter, status int, cache string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{jsonType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Control"] = []string{cache}
	h["X-Content-Type-Options"] = []string{"nosniff"}
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

// towards adds where a refusal by queue sends the person, which queue itself does not know.
func towards(err error, event string) error {
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
