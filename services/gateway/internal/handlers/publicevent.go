package handlers

import (
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/maypok86/otter/v2"

	"urr.guru/services/gateway/internal/edge"
)

// publicEvent is a response about an event, the same for everybody.
type publicEvent struct {
	etag []string // a header's values
	body []byte
}

// publicEvents keeps responses by event, or a part of one, for a short time.
type publicEvents[K comparable] struct {
	*otter.Cache[K, publicEvent]
}

func newPublicEvents[K comparable](o *otter.Options[K, publicEvent]) (publicEvents[K], error) {
	cached, err := otter.New(o)
	return publicEvents[K]{cached}, err
}

// keep makes the response of a body in JSON, and keeps it.
func (c publicEvents[K]) keep(key K, body []byte) publicEvent {
	sum := fnv.New64a()
	_, _ = sum.Write(body) // never fails
	e := publicEvent{etag: []string{quoted(strconv.FormatUint(sum.Sum64(), 36), "")}, body: body}
	c.Set(key, e)
	return e
}

// serve responds with what is kept or else read, or with 304 if the client has this version. Errors
// of read are not kept.
func (c publicEvents[K]) serve(w http.ResponseWriter, q *edge.Request, key K, read func(sharedRead[K]) (publicEvent, error)) error {
	e, ok := c.GetIfPresent(key)
	if !ok {
		var err error
		if e, err = read(sharedRead[K]{key, q.Caller()}); err != nil {
			return err
		}
	}
	writeTagged(w, q.Header, e.etag, shared, e.body)
	return nil
}
