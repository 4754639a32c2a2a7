package handlers

import (
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/maypok86/otter/v2"

	"urr.guru/services/gateway/internal/absence"
	"urr.guru/services/gateway/internal/edge"
)

// cachedResponse is a JSON response that is the same for everybody, with its ETag.
type cachedResponse struct {
	etag []string // a header's values
	body []byte
}

// responseCache keeps responses for a short time, by event or by a key that contains the event. It
// also remembers which keys do not exist.
type responseCache[K comparable] struct {
	*otter.Cache[K, cachedResponse]

	absent absence.Cache[K]
}

func newResponseCache[K comparable](o *otter.Options[K, cachedResponse]) (responseCache[K], error) {
	absent, err := absence.New[K](o.Clock)
	if err != nil {
		return responseCache[K]{}, err
	}
	cached, err := otter.New(o)
	return responseCache[K]{cached, absent}, err
}

// store computes the ETag of a body, and caches both as the response for key.
func (c responseCache[K]) store(key K, body []byte) cachedResponse {
	sum := fnv.New64a()
	_, _ = sum.Write(body) // never fails
	e := cachedResponse{etag: []string{quotedETag(strconv.FormatUint(sum.Sum64(), 36), "")}, body: body}
	c.Set(key, e)
	return e
}

// serve responds with the response for key, as get returns it, or with 304 if the client has this
// version.
func (c responseCache[K]) serve(w http.ResponseWriter, q *edge.Request, key K, read func(sharedRead[K]) (cachedResponse, error)) error {
	e, err := c.get(q, key, read)
	if err != nil {
		return err
	}
	writeTagged(w, q.Header, e.etag, sharedCacheControl, e.body)
	return nil
}

// get returns the cached response, or if there is none what read returns. Of the errors of read it
// caches only those that say that the key does not exist.
func (c responseCache[K]) get(q *edge.Request, key K, read func(sharedRead[K]) (cachedResponse, error)) (cachedResponse, error) {
	if e, ok := c.GetIfPresent(key); ok {
		return e, nil
	}
	if err := c.absent.Check(key); err != nil {
		return cachedResponse{}, err
	}
	e, err := read(sharedRead[K]{key, q.Caller()})
	return e, c.absent.Note(key, err)
}

// forget drops what is cached about a key.
func (c responseCache[K]) forget(key K) {
	c.Invalidate(key)
	c.absent.Forget(key)
}
