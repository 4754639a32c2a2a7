package handlers

import (
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/maypok86/otter/v2"

	"urr.guru/services/gateway/internal/edge"
)

// cachedResponse is a JSON response that is the same for everybody, with its ETag.
type cachedResponse struct {
	etag []string // a header's values
	body []byte
}

// responseCache keeps responses for a short time, by event or by a key that contains the event.
type responseCache[K comparable] struct {
	*otter.Cache[K, cachedResponse]
}

func newResponseCache[K comparable](o *otter.Options[K, cachedResponse]) (responseCache[K], error) {
	cached, err := otter.New(o)
	return responseCache[K]{cached}, err
}

// store computes the ETag of a body, and caches both as the response for key.
func (c responseCache[K]) store(key K, body []byte) cachedResponse {
	sum := fnv.New64a()
	_, _ = sum.Write(body) // never fails
	e := cachedResponse{etag: []string{quotedETag(strconv.FormatUint(sum.Sum64(), 36), "")}, body: body}
	c.Set(key, e)
	return e
}

// serve responds with the cached response, or if there is none with the result of read; with 304 if the
// client has this version. Errors of read are not cached.
func (c responseCache[K]) serve(w http.ResponseWriter, q *edge.Request, key K, read func(sharedRead[K]) (cachedResponse, error)) error {
	e, ok := c.GetIfPresent(key)
	if !ok {
		var err error
		if e, err = read(sharedRead[K]{key, q.Caller()}); err != nil {
			return err
		}
	}
	writeTagged(w, q.Header, e.etag, sharedCacheControl, e.body)
	return nil
}
