package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/loop"
	"urr.guru/services/gateway/internal/edge"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// slowDraw has a document with some parts. Each part takes seconds.
type slowDraw struct {
	ingestv1.IngestServiceClient

	parts int
	wait  time.Duration
}

const exclusionsPerPart = 20_000

func (d *slowDraw) GetDraw(ctx context.Context, in *ingestv1.GetDrawRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[ingestv1.Draw], error) {
	if in.GetEventId() == "small" {
		return &drawParts{ctx: ctx, left: 1}, nil
	}
	return &drawParts{ctx: ctx, wait: d.wait, left: d.parts}, nil
}

type drawParts struct {
	grpc.ServerStreamingClient[ingestv1.Draw]

	ctx  context.Context //nolint:containedctx // of the call
	wait time.Duration
	left int
}

func (s *drawParts) Recv() (*ingestv1.Draw, error) {
	if s.left == 0 {
		return nil, io.EOF
	}
	if s.wait > 0 && !loop.Sleep(s.ctx, s.wait) {
		return nil, s.ctx.Err()
	}
	s.left--
	part := &ingestv1.Draw{}
	for i := range exclusionsPerPart {
		id := fmt.Sprintf("019cc5d8-8a10-7b11-8e55-%012x", s.left*exclusionsPerPart+i)
		part.Excluded = append(part.Excluded, &ingestv1.DrawExclusion{RequestId: id, Reason: "REJECTED_WITHDRAWN"})
	}
	return part, nil
}

// A document with 100,000 exclusions takes long to read. It is still served, and does not delay the
// documents of other draws.
func TestDocumentOfALargeDraw(t *testing.T) {
	t.Parallel()
	h, err := NewDrawHandlers(&slowDraw{parts: 5, wait: 4 * time.Second}, nil)
	require.NoError(t, err)
	table, err := edge.NewTable(&edge.Route{ID: "draw", Method: http.MethodGet, Pattern: "/draws/{event_id}", Access: edge.Public, Handler: h.Document})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		get := func(id string) *httptest.ResponseRecorder {
			m, err := table.Match(http.MethodGet, "/draws/"+id)
			require.NoError(t, err)
			rec := httptest.NewRecorder()
			require.NoError(t, h.Document(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), &edge.Request{Match: m}))
			return rec
		}
		begin := time.Now()
		large := make(chan *httptest.ResponseRecorder)
		go func() { large <- get("large") }()
		get("small")
		require.Less(t, time.Since(begin), time.Second)
		rec := <-large
		require.Equal(t, http.StatusOK, rec.Code)
		var document struct{ Excluded []any }
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &document))
		require.Len(t, document.Excluded, 5*exclusionsPerPart)
		require.NoError(t, h.Close(t.Context()))
	})
}
