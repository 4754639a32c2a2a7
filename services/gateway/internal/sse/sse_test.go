package sse_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/sse"
)

// Frames are compressed once, and sent in streams that had different events before.
func TestCompressedStreams(t *testing.T) {
	t.Parallel()
	all := []*sse.Frame{sse.Event("reset", "v1", []byte(`{"seats":12}`)), sse.UnnamedEvent([]byte("1")),
		sse.Event("", "v2", []byte("2")), sse.UnnamedEvent([]byte("3"))}
	for _, some := range [][]*sse.Frame{all, all[1:], {all[3], all[0], all[3]}, nil} {
		rec := httptest.NewRecorder()
		s, err := sse.OpenCompressed(rec, http.Header{"Accept-Encoding": {"br, gzip"}})
		require.NoError(t, err)
		want := "retry: 2000\n\n"
		for _, f := range some {
			require.NoError(t, s.Write(f))
			want += f.String()
		}
		require.NoError(t, s.Heartbeat())
		s.End()
		require.Equal(t, "gzip", rec.Header().Get("Content-Encoding"))
		z, err := gzip.NewReader(rec.Body)
		require.NoError(t, err)
		got, err := io.ReadAll(z)
		require.NoError(t, err, "with its checksum and length")
		require.Equal(t, want+":\n\n", string(got))
	}
}

func TestPlainStreams(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	s, err := sse.OpenCompressed(rec, http.Header{"Accept-Encoding": {"gzip;q=0"}})
	require.NoError(t, err)
	require.NoError(t, s.Write(sse.Event("reset", "v1", []byte("{}"))))
	s.End()
	require.Equal(t, "retry: 2000\n\nevent: reset\nid: v1\ndata: {}\n\n", rec.Body.String())
	require.Empty(t, rec.Header().Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", rec.Header().Get("Vary"))
	require.Equal(t, "text/event-stream", rec.Header().Get("Content-Type"))
}
