package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"

	"urr.guru/services/gateway/internal/coding"
)

// codings lists the content codings, best first, with the file suffix of the compressed form.
var codings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// encodedContent is a response body in several codings; the empty name is the uncompressed one.
type encodedContent struct {
	mime   string
	etag   string
	bodies map[string][]byte
}

// newContent makes the content of a page that is rendered at the start, and compresses it with gzip.
func newContent(mime string, body []byte) *encodedContent {
	c := newPlainContent(mime, body)
	var b bytes.Buffer
	// Writing to memory does not fail, and the level is valid.
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(body)
	_ = z.Close()
	c.bodies["gzip"] = b.Bytes()
	return c
}

func readContent(files fs.FS, name, mime string) (*encodedContent, error) {
	body, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	c := newPlainContent(mime, body)
	for _, candidate := range codings {
		compressed, err := fs.ReadFile(files, name+candidate.suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s%s: %w", name, candidate.suffix, err)
		}
		c.bodies[candidate.name] = compressed
	}
	return c, nil
}

func newPlainContent(mime string, body []byte) *encodedContent {
	sum := sha256.Sum256(body)
	return &encodedContent{mime: mime, etag: hex.EncodeToString(sum[:12]), bodies: map[string][]byte{"": body}}
}

// serve responds to GET and HEAD with the content in the best coding that the client accepts. The
// caller has set Cache-Control. Each coding has its own ETag (RFC 9110 §8.8.3.3).
func (c *encodedContent) serve(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	chosen := c.negotiate(r.Header.Get("Accept-Encoding"))
	etag := `"` + c.etag + `"`
	if chosen != "" {
		etag = `"` + c.etag + "-" + chosen + `"`
	}
	h.Add("Vary", "Accept-Encoding")
	h.Set("ETag", etag)
	if status == http.StatusOK && coding.Unchanged(r.Header, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := c.bodies[chosen]
	if chosen != "" {
		h.Set("Content-Encoding", chosen)
	}
	h.Set("Content-Type", c.mime)
	// net/http does not set the length by itself once Content-Encoding is set.
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

func (c *encodedContent) negotiate(acceptEncoding string) string {
	for _, candidate := range codings {
		if _, ok := c.bodies[candidate.name]; ok && coding.Accepts(acceptEncoding, candidate.name) {
			return candidate.name
		}
	}
	return ""
}
