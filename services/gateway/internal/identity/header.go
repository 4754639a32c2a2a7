package identity

import (
	"net/http"
	"strings"
)

// Names of what clients carry.
const (
	SessionCookie = "urr-session"
	AnonCookie    = "urr-anon"
	Tier1Cookie   = "urr-vwr-token"
	EntryCookie   = "urr-entry-token"

	EntryHeader       = "X-Queue-Entry-Token"
	QueueTicketHeader = "X-Queue-Ticket"
	VWRTicketHeader   = "X-Vwr-Ticket"
	IdempotencyHeader = "Idempotency-Key"
	IfMatchHeader     = "If-Match"
)

// cookie finds a cookie's value without parsing the others: every poll does it, and http.Request.Cookie allocates for each cookie. Values
// are tokens, so quotes mean nothing. The first of several wins, as in net/http.
func cookie(h http.Header, name string) string {
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			pair = strings.TrimLeft(pair, " ")
			if len(pair) > len(name) && pair[len(name)] == '=' && pair[:len(name)] == name {
				return pair[len(name)+1:]
			}
		}
	}
	return ""
}

// bearer is the token of the header Authorization, "" when there is none of that scheme.
func bearer(h http.Header) string {
	v := h["Authorization"]
	const scheme = "Bearer "
	if len(v) == 0 || len(v[0]) <= len(scheme) || !strings.EqualFold(v[0][:len(scheme)], scheme) {
		return ""
	}
	return v[0][len(scheme):]
}

func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// maxQueueTicket is longer than any queue ticket, in bytes.
const maxQueueTicket = 256

// QueueTicket is the queue ticket as the page sent it back, "" when it cannot be one. Only queue can tell whether it is genuine, and it asks
// for many visitors in one call: bytes that no message can carry must not fail the others', nor a header of a megabyte fill the call.
func QueueTicket(h http.Header) string {
	t := first(h, QueueTicketHeader)
	if len(t) > maxQueueTicket || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return t
}
