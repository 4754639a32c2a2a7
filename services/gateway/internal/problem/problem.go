// Package problem is the only place where an error becomes an HTTP response: an RFC 9457 problem
// document with the stable code of pkg/errs, its fixed English sentence, and a sentence for the
// user in Korean or English.
package problem

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/language"
)

// ContentType is that of every problem document.
const ContentType = "application/problem+json"

var contentType = []string{ContentType}

// Metadata keys with a special meaning.
const (
	metaRedirect = "redirectTo"
	metaAllow    = "allow"
)

// Writer responds with errors and logs them. It is safe for concurrent use.
type Writer struct {
	language func(*http.Request) string
	page     ErrorPage
	log      *slog.Logger
	lines    *telemetry.LogLimit // by the code of the error
}

// ErrorPage shows an error to a person who opened an address in a browser. If the request came from
// a program, it writes nothing and returns false.
type ErrorPage func(w http.ResponseWriter, r *http.Request, status int, detail, requestID string) bool

// New makes a Writer; language returns the language for the response to a request, "ko" or "en".
func New(language func(*http.Request) string, log *slog.Logger) *Writer {
	return &Writer{language: language, log: log, lines: telemetry.NewLogLimit(slices.Collect(maps.Keys(catalogue))...)}
}

// WithPage sets the page that people in browsers get instead of a problem document, and returns p.
func (p *Writer) WithPage(page ErrorPage) *Writer {
	p.page = page
	return p
}

// codeMembers are the fields of a problem document that depend only on the code and the language.
type codeMembers struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Error  string `json:"error"`
}

// requestMembers come after the codeMembers, and before the fields of the error's metadata.
type requestMembers struct {
	Instance   string       `json:"instance"`
	RequestID  string       `json:"requestId"`
	RedirectTo string       `json:"redirectTo,omitempty"`
	RetryAfter int64        `json:"retryAfter,omitempty"`
	Fields     []errs.Field `json:"fields,omitempty"`
}

// reserved are the fields that the metadata of an error cannot overwrite.
var reserved = []string{
	"type", "title", "status", "detail", "instance", "code", "error", "requestId", "redirectTo", "retryAfter", "fields", metaAllow,
}

// Write responds with err and logs it, client errors at warn and server errors at error, at most
// maxLines a second of each code. The log has the cause, the response does not.
func (p *Writer) Write(w http.ResponseWriter, r *http.Request, requestID string, err error) {
	e := errs.From(err)
	p.logRefusal(r, requestID, e)
	h := w.Header()
	lang, status, retry := p.language(r), Status(e), retryAfter(e)
	if allow := e.Metadata[metaAllow]; allow != "" {
		h.Set("Allow", allow)
	}
	if retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(retry, 10))
	}
	if e.Kind == errs.Unauthenticated {
		h.Set("WWW-Authenticate", `Bearer realm="urr"`)
	}
	for _, name := range []string{"Etag", "Content-Encoding", "Content-Length"} { // set for the response that the error replaces
		delete(h, name)
	}
	h["Content-Language"], h["Cache-Control"], h["X-Content-Type-Options"] = []string{lang}, edge.NoStore, edge.Nosniff
	if p.page != nil && p.page(w, r, status, userSentence(e, lang), requestID) {
		return
	}
	h["Content-Type"] = contentType
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(encodeProblem(e, lang, requestMembers{r.URL.Path, requestID, RedirectTo(e), retry, e.Fields}))
	}
}

// Status returns the HTTP status of an error: that of its kind, except for codes that have an
// HTTP status of their own.
func Status(e *errs.Error) int {
	switch e.Reason {
	case errs.ErrMethodNotAllowed.Reason:
		return http.StatusMethodNotAllowed
	case errs.ErrUnsupportedMedia.Reason:
		return http.StatusUnsupportedMediaType
	case errs.ErrRangeNotSatisfiable.Reason:
		return http.StatusRequestedRangeNotSatisfiable
	default:
		return e.Kind.HTTPStatus()
	}
}

// RedirectTo returns the path of this site to which the error sends the user, "" for none.
func RedirectTo(e *errs.Error) string {
	if to := e.Metadata[metaRedirect]; edge.OwnPath(to) {
		return to
	}
	return ""
}

// encodeCode returns the JSON object of an error's codeMembers.
func encodeCode(e *errs.Error, lang string) []byte {
	status := Status(e)
	return encode(codeMembers{"/docs#" + e.Reason, statusTitle(status), status, userSentence(e, lang), e.Reason, englishSentence(e)})
}

// encode returns the JSON of a value that can always be encoded.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

type codeKey struct {
	reason, lang string
	kind         errs.Kind
}

// encodedCodes has the result of encodeCode for the codes of the catalogue.
var encodedCodes = func() map[codeKey][]byte {
	encoded := make(map[codeKey][]byte)
	for _, e := range errs.Catalogue() {
		for _, lang := range language.All {
			encoded[codeKey{e.Reason, lang, e.Kind}] = encodeCode(e, lang)
		}
	}
	return encoded
}()

// englishSentence returns the sentence of the catalogue, not the text of the service, which may
// come from a library. A code that is not in the catalogue gets the sentence for its kind.
func englishSentence(e *errs.Error) string {
	if s, ok := catalogue[e.Reason]; ok {
		return s
	}
	return e.Kind.Sentence()
}

var catalogue = func() map[string]string {
	messages := make(map[string]string)
	for _, e := range errs.Catalogue() {
		messages[e.Reason] = e.Message
	}
	return messages
}()

func statusTitle(status int) string {
	if t := http.StatusText(status); t != "" {
		return t
	}
	return "Client Closed Request" // 499, which net/http does not name
}

// retryAfter returns whole seconds. It returns at least one for every temporary error, since
// clients would otherwise retry at once.
func retryAfter(e *errs.Error) int64 {
	if s := int64(math.Ceil(e.RetryAfter.Seconds())); s > 0 {
		return s
	}
	switch e.Kind {
	case errs.Exhausted, errs.Unavailable:
		return 1
	default:
		return 0
	}
}

// encodeProblem returns the JSON of a problem document, with the error's metadata as members.
// Metadata whose name ends in Ids or Reasons is a list joined by commas, and becomes an array.
func encodeProblem(e *errs.Error, lang string, request requestMembers) []byte {
	code, ok := encodedCodes[codeKey{e.Reason, lang, e.Kind}]
	if !ok { // of a service that is newer than this gateway
		code = encodeCode(e, lang)
	}
	b := append(slices.Clip(code[:len(code)-1]), ',')
	b = append(b, encode(request)[1:]...)
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		if slices.Contains(reserved, name) {
			continue
		}
		var value any = e.Metadata[name]
		if strings.HasSuffix(name, "Ids") || strings.HasSuffix(name, "Reasons") {
			value = strings.Split(e.Metadata[name], ",")
		}
		b = append(b[:len(b)-1], ',')
		b = append(b, encode(map[string]any{name: value})[1:]...)
	}
	return append(b, '\n')
}

func (p *Writer) logRefusal(r *http.Request, requestID string, e *errs.Error) {
	suppressed, ok := p.lines.Allow(e.Reason)
	if !ok {
		return
	}
	level := slog.LevelError
	if e.Kind.CausedByClient() {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("code", e.Reason), slog.String("method", r.Method), slog.String("path", r.URL.Path)}
	if cause := e.Cause(); cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", suppressed))
	}
	ctx := telemetry.WithRequestID(r.Context(), requestID) // fast-path requests have no id before
	p.log.LogAttrs(ctx, level, "request refused", attrs...)
}
