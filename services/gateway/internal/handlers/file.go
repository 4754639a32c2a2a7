package handlers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"urr.guru/pkg/errs"
)

// serveFile responds with a file, or with the range of the file that the request asks for; cache is the
// value of Cache-Control.
func serveFile(w http.ResponseWriter, r *http.Request, etag string, cache []string, file io.ReadSeeker) error {
	h := w.Header()
	h.Set("Etag", quotedETag(etag, ""))
	h.Set("Content-Type", bitmapType)
	h["Cache-Control"] = cache
	if strings.Contains(r.Header.Get("Range"), ",") { // several ranges, each of which would be a call; a server may ignore them
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	answer := &fileWriter{ResponseWriter: w}
	http.ServeContent(answer, r, "", time.Time{}, file)
	return answer.refusal()
}

// fileWriter drops the error responses of http.ServeContent, which are plain text, and keeps their
// status.
type fileWriter struct {
	http.ResponseWriter

	refused int // the status of the error, 0: none
}

func (w *fileWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *fileWriter) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *fileWriter) refusal() error {
	switch w.refused {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable: // Content-Range has the size of the file
		return errs.ErrRangeNotSatisfiable
	case http.StatusPreconditionFailed:
		return errs.ErrPreconditionFailed
	default:
		return errs.ErrInternal.Wrap(fmt.Errorf("serve a file: status %d", w.refused))
	}
}
