// Package docs serves the API reference: an OpenAPI document, and the page /docs that renders it with
// Swagger UI. The document is generated from the HTTP rules of the services, and completed with what
// only the gateway knows: hand-written routes, who may call each route, and the error codes.
package docs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/telemetry"
	"urr.guru/proto"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/problem"
)

//go:embed page.html
var pageSource string

// Reference serves the OpenAPI document and the page. Describe must be called before the first
// request. It is separate, since the routes that it describes include those of the Reference.
type Reference struct {
	// Script and Styles are the URLs of Swagger UI. Without Script the page is a plain list of routes.
	Script string
	Styles []string

	document, page func() ([]byte, error)
}

// Describe sets the routes to document. The document and the page are built at their first request,
// so that the gateway starts faster.
func (d *Reference) Describe(routes []*edge.Route) {
	d.document = sync.OnceValues(func() ([]byte, error) { return documentJSON(routes) })
	d.page = sync.OnceValues(func() ([]byte, error) { return d.renderPage(routes) })
}

// documentJSON returns the OpenAPI document of the routes. It fails if the generated document lacks
// a pass-through route: then the generated document is outdated.
func documentJSON(routes []*edge.Route) ([]byte, error) {
	generated, err := buildDocument(proto.OpenAPI, routes)
	if err != nil {
		return nil, err
	}
	doc, err := toV3(generated)
	if err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return body, nil
}

func (d *Reference) Document(w http.ResponseWriter, _ *http.Request, _ *edge.Request) error {
	return writeContent(w, "application/json", d.document)
}

func (d *Reference) Page(w http.ResponseWriter, _ *http.Request, _ *edge.Request) error {
	return writeContent(w, "text/html; charset=utf-8", d.page)
}

// policy is the Content-Security-Policy of the page /docs: it may load Swagger UI and the OpenAPI
// document from this site, and has no inline script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func writeContent(w http.ResponseWriter, contentType string, content func() ([]byte, error)) error {
	body, err := content()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have disconnected
	return nil
}

// renderPage renders the page /docs with all routes of the API and all error codes.
func (d *Reference) renderPage(routes []*edge.Route) ([]byte, error) {
	t, err := template.New("docs").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	type code struct {
		Code, Error string
		Status      int
	}
	type route struct{ Method, Path, Who, Summary string }
	data := struct {
		Version string
		Script  string
		Styles  []string
		Routes  []route
		Codes   []code
	}{Version: telemetry.Version(), Script: d.Script, Styles: d.Styles}
	for _, r := range routes {
		if r.Page {
			continue
		}
		data.Routes = append(data.Routes, route{r.Method, publicPath(r), string(r.Access), r.Summary})
	}
	for _, e := range errs.Catalogue() {
		data.Codes = append(data.Codes, code{e.Reason, e.Message, problem.Status(e)})
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	return b.Bytes(), nil
}

func publicPath(r *edge.Route) string {
	p := r.Pattern
	for _, name := range r.Params() {
		p = strings.Replace(p, "{"+name+"}", "{"+edge.PublicName(name)+"}", 1)
	}
	return p
}
