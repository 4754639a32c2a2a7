package handlers

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/coding"
	"urr.guru/services/gateway/internal/edge"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// availabilityTTL is how long the ticket service's answer about an event's free seats is cached.
	availabilityTTL   = 50 * time.Millisecond
	maxAvailabilities = 256
	bitmapType        = "application/octet-stream"
)

// availability serves which seats of an event are free, as JSON or as a bitmap, each with an ETag.
// Requests within availabilityTTL share one call. Bodies are built only after a change.
type availability struct {
	cached *otter.Cache[string, *freeSeats]
	last   *otter.Cache[string, *freeSeats] // the last answer about each event, to detect changes
	reads  *batch.Coalescer[eventRead, *freeSeats]
}

type freeSeats struct {
	source     *ticketv1.Availability
	json, bits representation
}

// representation is a response in plain and in compressed form. gzipped equals plain if gzip would
// not shorten it.
type representation struct{ plain, gzipped encodedBody }

// encodedBody is a body with its headers.
type encodedBody struct {
	body                                []byte
	etag, contentType, length, encoding []string
}

// Values of headers, shared by all responses.
var (
	freeCacheControl = []string{"private, no-cache"} // browsers may keep it, but must ask whether it changed
	freeVary         = []string{"Accept, Accept-Encoding"}
	bitsType         = []string{bitmapType}
	gzipCoded        = []string{"gzip"}
)

func newAvailability(events ticketv1.EventServiceClient, clock otter.Clock) (*availability, error) {
	cached, err := otter.New(&otter.Options[string, *freeSeats]{
		MaximumSize: maxAvailabilities, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[string, *freeSeats](availabilityTTL),
	})
	if err != nil {
		return nil, err
	}
	last, err := otter.New(&otter.Options[string, *freeSeats]{MaximumSize: maxAvailabilities})
	if err != nil {
		return nil, err
	}
	a := &availability{cached: cached, last: last}
	a.reads = newSharedRead(func(ctx context.Context, event string) (*freeSeats, error) {
		m, err := events.GetAvailability(ctx, &ticketv1.GetAvailabilityRequest{EventId: event})
		if err != nil {
			return nil, err
		}
		free, ok := last.GetIfPresent(event)
		if !ok || !proto.Equal(free.source, m) {
			if free, err = newFreeSeats(m); err != nil {
				return nil, err
			}
			last.Set(event, free)
		}
		cached.Set(event, free)
		return free, nil
	})
	return a, nil
}

func newFreeSeats(m *ticketv1.Availability) (*freeSeats, error) {
	body, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	f := &freeSeats{source: m}
	// The ticket service's ETag covers only the free seats; the JSON also has prices and capacities.
	sum := sha256.Sum256(body)
	if f.json, err = newRepresentation(body, hex.EncodeToString(sum[:16]), jsonType); err != nil {
		return nil, err
	}
	f.bits, err = newRepresentation(m.GetBitmap(), m.GetEtag(), bitsType)
	return f, err
}

func newRepresentation(body []byte, etag string, contentType []string) (p representation, err error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		return p, err
	}
	if err := z.Close(); err != nil {
		return p, err
	}
	p.plain = encodedBody{body: body, etag: []string{quotedETag(etag, "")}, contentType: contentType, length: []string{strconv.Itoa(len(body))}}
	p.gzipped = p.plain
	if b.Len() < len(body) {
		p.gzipped = encodedBody{
			body: b.Bytes(), etag: []string{quotedETag(etag, "-gz")}, contentType: contentType, length: []string{strconv.Itoa(b.Len())}, encoding: gzipCoded,
		}
	}
	return p, nil
}

// get returns the free seats of an event on behalf of a caller, at most availabilityTTL old.
func (a *availability) get(ctx context.Context, event string, caller *commonv1.Caller) (*freeSeats, error) {
	if free, ok := a.cached.GetIfPresent(event); ok {
		return free, nil
	}
	return a.reads.Do(ctx, eventRead{event, caller})
}

// serve responds with only the bitmap if the client accepts bitmapType, else with JSON.
func (a *availability) serve(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	free, err := a.get(r.Context(), q.Event, q.Caller())
	if err != nil {
		return err
	}
	answer := &free.json
	if strings.Contains(q.Header.Get("Accept"), bitmapType) {
		answer = &free.bits
	}
	answer.write(w, q.Header)
	return nil
}

func (p *representation) write(w http.ResponseWriter, request http.Header) {
	h := w.Header()
	h["Vary"], h["Cache-Control"] = freeVary, freeCacheControl
	for _, e := range []*encodedBody{&p.gzipped, &p.plain} { // compare ETags first: most polls get 304, and need no negotiation
		if coding.Unchanged(request, e.etag[0]) {
			h["Etag"] = e.etag
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	e := &p.plain
	if coding.Accepts(request.Get("Accept-Encoding"), "gzip") {
		e = &p.gzipped
	}
	h["Etag"], h["Content-Type"], h["Content-Length"], h["X-Content-Type-Options"] = e.etag, e.contentType, e.length, edge.Nosniff
	if e.encoding != nil {
		h["Content-Encoding"] = e.encoding
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(e.body) // the client may have disconnected
}
