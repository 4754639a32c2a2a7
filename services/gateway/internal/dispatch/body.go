package dispatch

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"
)

// readBody reads and checks the body of a request, if its route takes one. It sets q.Body, and
// q.Message if the route has a message, or q.Upload, which the handler reads.
func readBody(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	b := q.Route.Body
	switch {
	case b.Raw:
		body, err := readAll(w, r, edge.MaxWebhook)
		q.Body = body
		return err
	case b.JSON:
		body, err := readAll(w, r, edge.MaxBody)
		if err != nil {
			return err
		}
		q.Body = body
		return checkJSON(r, q)
	case b.Stream:
		q.Upload = edge.NewUpload(w, r)
		return nil
	default:
		return nil
	}
}

func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, errs.ErrUnsupportedMedia.WithFields(errs.Field{Path: "Content-Encoding", Message: "the body must not be compressed"})
	}
	if r.ContentLength > limit { // the client has said that it is too large
		return nil, errs.ErrBodyTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, edge.BodyError(err)
	}
	return body, nil
}

// checkJSON checks the content type of a JSON body, and parses the body if the route has a message.
func checkJSON(r *http.Request, q *edge.Request) error {
	if len(q.Body) > 0 && !isJSON(r.Header.Get("Content-Type")) {
		return errs.ErrUnsupportedMedia
	}
	if q.Route.Body.Message == nil {
		return nil
	}
	q.Message = q.Route.Body.Message()
	if len(q.Body) == 0 {
		return nil
	}
	return wire.Unmarshal(q.Body, q.Message)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	charset := params["charset"]
	return charset == "" || strings.EqualFold(charset, "utf-8")
}
