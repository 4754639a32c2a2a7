package app_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

// /docs/openapi.json is valid OpenAPI 3 and has every route of the API.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/docs/openapi.json", "", nil)
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	require.True(t, strings.HasPrefix(doc.OpenAPI, "3."), doc.OpenAPI)
	for _, r := range w.gateway.Routes() {
		if r.Page {
			continue
		}
		path := doc.Paths.Value(documentedPath(r))
		require.NotNil(t, path, "%s", r)
		op := path.GetOperation(r.Method)
		require.NotNil(t, op, "%s", r)
		require.NotEmpty(t, op.Summary, "%s", r)
		require.Equal(t, string(r.Access), op.Extensions["x-urr-who"], "%s", r)
		refused := op.Responses.Default().Value.Content["application/problem+json"]
		require.NotNil(t, refused, "%s", r)
		require.Equal(t, "#/components/schemas/Problem", refused.Schema.Ref, "%s", r)
		// BuyMembership needs no key: a repeated call returns the purchase that has begun.
		keyed := r.Status == http.StatusCreated && r.ID != "MembershipService.BuyMembership" || slices.Contains([]string{
			"PaymentService.Confirm", "RefundService.RefundPayment", "RefundAdminService.RefundAnyPayment", "RefundAdminService.RefundMembership",
			"RefundAdminService.AssignByHand", "promotions.apply",
		}, r.ID)
		require.Equal(t, keyed, op.Parameters.GetByInAndName("header", "Idempotency-Key") != nil, "%s", r)
		require.Equal(t, strings.HasPrefix(r.ID, "queue."), op.Parameters.GetByInAndName("header", "X-Queue-Ticket") != nil, "%s", r)
		require.Equal(t, r.ID == "vwr.check", op.Parameters.GetByInAndName("header", "X-Vwr-Ticket") != nil, "%s", r)
	}
	require.Len(t, doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum, len(errs.Catalogue()))
	require.NotContains(t, rec.Body.String(), `"caller`)
	place, err := json.Marshal(doc.Components.Schemas["v1Place"].Value.Properties["peopleAhead"])
	require.NoError(t, err)
	require.JSONEq(t, `{"type": "integer", "format": "int64"}`, string(place))
}

// A sign-out's response has a body only for a session that began at the identity provider.
func TestDocumentOfASignOut(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(newFixture(t).do(http.MethodGet, "/docs/openapi.json", "", nil).Body.Bytes())
	require.NoError(t, err)
	responses := doc.Paths.Value("/api/v1/auth/logout").Post.Responses
	require.Empty(t, responses.Status(http.StatusNoContent).Value.Content)
	require.Contains(t, responses.Status(http.StatusOK).Value.Content["application/json"].Schema.Value.Properties, "redirectTo")
}

// The API reference describes only the services that are deployed.
func TestDocumentOfAPartialPlatform(t *testing.T) {
	t.Parallel()
	for prefix, without := range map[string]option{"/vwr-api/vwr/shuffle": withoutTier1, "/api/v1/rewards": withoutRewards, "/api/v1/draws": withoutPromotions} {
		w := newFixture(t, without)
		doc := readReference(t, w)
		for path := range doc.Paths {
			require.False(t, strings.HasPrefix(path, prefix), path)
		}
		require.Contains(t, doc.Paths, "/api/v1/events")
	}
}

// The page /docs loads only files that exist, from its own origin, and its CSP allows them.
func TestDocsPageLoadsTheRenderer(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	page := w.do(http.MethodGet, "/docs", "", nil)
	require.Equal(t, http.StatusOK, page.Code)
	body := page.Body.String()
	require.Contains(t, body, `id="SEAT_TAKEN"`)
	require.NotContains(t, body, "<style")
	require.NotRegexp(t, `<script(>| [^s])`, body, "no inline script")
	files := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
	require.Len(t, files, 2, "build the pages: make web")
	for _, file := range files {
		rec := w.do(http.MethodGet, file[1], "", nil)
		require.Equal(t, http.StatusOK, rec.Code, file[1])
		require.Contains(t, rec.Header().Get("Cache-Control"), "immutable")
	}
	policy := page.Header().Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"} {
		require.Contains(t, policy, directive)
	}
	require.NotContains(t, policy, "unsafe")
}
