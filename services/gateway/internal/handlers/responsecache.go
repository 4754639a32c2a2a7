package handlers

import (
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/maypok86/otter/v2"

	"urr.guru/services/gateway/internal/edge"
)

// cachedResponse is a body in JSON, the same for everybody.
type cachedResponse struct {
	etag []string // a header's values
	body []byte
}

// responseCache keeps responses by event, or a part of one, for a short time.
type responseCache[K comparable] struct {
	*otter.Cache[K, cachedResponse]
}

func newResponseCache[K comparable](o *otter.Options[K, cachedResponse]) (responseCache[K], error) {
	cached, err := otter.New(o)
	return responseCache[K]{cached}, err
}

// store makes the response of a body, and caches it.
func (c responseCache[K]) store(key K, body []byte) cachedResponse {
	sum := fnv.New64a()
	_, _ = sum.Write(body) // never fails
	e := cachedResponse{etag: []string{quotedETag(strconv.FormatUint(sum.Sum64(), 36), "")}, body: body}
	c.Set(key, e)
	return e
}

// serve responds with the cached response, else that of read, or with 304 if the client has this
// version. Errors of read are not cached.
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
