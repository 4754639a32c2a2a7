package table_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion/table"
)

func TestPing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"there is no such item":     {http.StatusOK, `{}`, nil},
		"throttled, so it is there": {http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`, nil},
		"away":                      {http.StatusServiceUnavailable, `{"__type":"ServiceUnavailable"}`, errs.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(server.Close)
			db, err := dynamo.Open(t.Context(), dynamo.Config{Region: "local", Endpoint: server.URL})
			require.NoError(t, err)
			require.ErrorIs(t, table.Store{Client: db, Table: "requests"}.Ping(t.Context()), c.want)
		})
	}
}
