package handlers

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

const (
	// drawTTL is how long a document about a draw is cached. When a result is announced, everybody
	// requests it.
	drawTTL = time.Second
	// DrawTimeout is the time-out of responses of some megabytes, below the server's writeTimeout.
	DrawTimeout = 25 * time.Second
	// ExportTimeout is the time-out of the download of all winners, up to a million lines. Each part
	// of it must be written within exportWriteTimeout, which replaces the server's time-out.
	ExportTimeout      = 10 * time.Minute
	exportWriteTimeout = 30 * time.Second
	// winnersPage is how many winners one call of the ingest service returns, some 100 bytes each.
	winnersPage = 50_000
	// chunkBytes is the size of a chunk of the entries, 20,000 ids.
	chunkBytes = 320_000
	// maxDrawBytes is the most memory for cached documents. A draw with 1,000,000 winners has 40 MB.
	maxDrawBytes = 64 << 20
)

// entriesCacheControl lets caches keep the file of the entries, which never changes once it is
// public.
var entriesCacheControl = []string{"public, max-age=86400, immutable"}

// DrawHandlers serves the public documents of lottery draws, and the list of winners to operators.
type DrawHandlers struct {
	ingest ingestv1.IngestServiceClient
	admin  ingestv1.IngestAdminServiceClient
	cached responseCache[string]
	reads  *batch.Groups[string, eventRead, cachedResponse]
}

// NewDrawHandlers makes the handlers of draws.
func NewDrawHandlers(ingest ingestv1.IngestServiceClient, admin ingestv1.IngestAdminServiceClient) (*DrawHandlers, error) {
	cached, err := newResponseCache(&otter.Options[string, cachedResponse]{
		MaximumWeight: maxDrawBytes, Weigher: func(_ string, d cachedResponse) uint32 { return uint32(min(len(d.body), maxDrawBytes)) }, //nolint:gosec // bounded
		ExpiryCalculator: otter.ExpiryWriting[string, cachedResponse](drawTTL),
	})
	if err != nil {
		return nil, err
	}
	h := &DrawHandlers{ingest: ingest, admin: admin, cached: cached}
	// Each draw has its own batches, so that a large document does not delay those of other draws.
	h.reads = newEventBatches(batchConfig(DrawTimeout), func(ctx context.Context, in []eventRead) ([]batch.Result[cachedResponse], error) {
		d, err := h.readDocument(caller.With(ctx, in[0].caller), in[0].key)
		return slices.Repeat([]batch.Result[cachedResponse]{{Value: d, Err: err}}, len(in)), nil
	})
	return h, nil
}

// Document responds with the public state of a draw, or with 304 if the client has this version.
func (h *DrawHandlers) Document(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return h.cached.serve(w, q, q.Param("event_id"), func(e eventRead) (cachedResponse, error) { return h.reads.Do(r.Context(), e.key, e) })
}

func (h *DrawHandlers) readDocument(ctx context.Context, event string) (cachedResponse, error) {
	parts, err := h.ingest.GetDraw(ctx, &ingestv1.GetDrawRequest{EventId: event})
	if err != nil {
		return cachedResponse{}, err
	}
	draw := &ingestv1.Draw{}
	for {
		part, err := parts.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cachedResponse{}, err
		}
		proto.Merge(draw, part)
	}
	body, err := wire.Marshal(draw)
	if err != nil {
		return cachedResponse{}, err
	}
	return h.cached.store(event, body), nil
}

// Entries responds with the file of the entries or a range of it.
func (h *DrawHandlers) Entries(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return h.serveEntries(w, r, q, 0, math.MaxInt64)
}

// Chunk responds with a chunk of the file of the entries; a chunk behind the last one is empty.
func (h *DrawHandlers) Chunk(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	n, err := strconv.ParseUint(q.Param("chunk"), 10, 16)
	if err != nil {
		return errs.ErrInvalidID.Wrap(err)
	}
	return h.serveEntries(w, r, q, int64(n)*chunkBytes, chunkBytes) //nolint:gosec // of 16 bits
}

// serveEntries serves the part of the file of the entries that begins at the offset from and has at
// most size bytes.
func (h *DrawHandlers) serveEntries(w http.ResponseWriter, r *http.Request, q *edge.Request, from, size int64) error {
	ctx, cancel := context.WithCancel(r.Context()) // ends streams that were not read to their end
	defer cancel()
	f := &entriesFile{open: func(offset, size int64) (entriesStream, error) {
		return h.ingest.GetDrawEntries(ctx, &ingestv1.GetDrawEntriesRequest{EventId: q.Param("event_id"), Offset: from + offset, Size: size})
	}}
	head, err := f.open(0, 1)
	if err != nil {
		return err
	}
	first, err := head.Recv()
	if err != nil {
		return err
	}
	f.total = min(max(0, first.GetTotal()-from), size)
	return serveFile(w, r, first.GetEtag(), entriesCacheControl, f)
}

type entriesStream = grpc.ServerStreamingClient[ingestv1.DrawEntries]

// entriesFile reads the file of the entries from the ingest service. The first Read after a Seek
// opens a stream.
type entriesFile struct {
	open      func(offset, size int64) (entriesStream, error)
	total, at int64
	stream    entriesStream
	part      []byte
}

func (f *entriesFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.total
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of the entries")
	}
	f.at, f.stream, f.part = offset, nil, nil
	return offset, nil
}

func (f *entriesFile) Read(p []byte) (int, error) {
	if f.at >= f.total {
		return 0, io.EOF
	}
	for len(f.part) == 0 {
		var err error
		if f.stream == nil {
			if f.stream, err = f.open(f.at, f.total-f.at); err != nil {
				return 0, err
			}
		}
		next, err := f.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		f.part = next.GetIds()
	}
	n := copy(p, f.part)
	f.part, f.at = f.part[n:], f.at+int64(n)
	return n, nil
}

// Winners responds with the winners of a promotion as CSV. It reads each page of winners in a
// separate call of the ingest service, so that a slow client does not keep a call open.
func (h *DrawHandlers) Winners(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in := &ingestv1.ExportWinnersRequest{Caller: q.Caller(), EventId: q.Param("event_id"), Limit: winnersPage}
	page, more, err := h.readWinners(r.Context(), in)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="winners-`+in.GetEventId()+`.csv"`) // its form needs no quoting
	w.Header()["Cache-Control"] = edge.NoStore
	deadlines := http.NewResponseController(w)
	for {
		if err := deadlines.SetWriteDeadline(time.Now().Add(exportWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil // the client has disconnected
		}
		if _, err := w.Write(page); err != nil || !more {
			return nil //nolint:nilerr // the list is complete, or the client has disconnected
		}
		if page, more, err = h.readWinners(r.Context(), in); err != nil {
			panic(http.ErrAbortHandler) // otherwise the client would take a part of the list for all of it
		}
	}
}

// readWinners reads a page of winners as CSV, and changes in to request the page after it.
func (h *DrawHandlers) readWinners(ctx context.Context, in *ingestv1.ExportWinnersRequest) (page []byte, more bool, err error) {
	parts, err := h.admin.ExportWinners(ctx, in)
	for err == nil {
		var part *ingestv1.WinnersPart
		if part, err = parts.Recv(); err == nil {
			page = append(page, part.GetCsv()...)
			if more = part.Next != nil; more {
				in.After = part.GetNext()
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return page, more, err
}

func (h *DrawHandlers) Close(ctx context.Context) error { return h.reads.Close(ctx) }
