package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
)

// If the generated document lacks a route, that is an error, not a gap in the reference.
func TestStaleDocumentIsAnError(t *testing.T) {
	t.Parallel()
	d := &docs.Reference{}
	d.Describe([]*edge.Route{{ID: "new", Method: http.MethodGet, Pattern: "/api/v1/new", RPC: "/urr.new.v1.NewService/Get", Access: edge.Public}})
	rec := httptest.NewRecorder()
	require.ErrorContains(t, d.Document(rec, nil, nil), "the generated document has no GET /api/v1/new")
	require.Empty(t, rec.Header())
}
