package identity

import (
	"iter"
	"net/http"
	"strings"
)

// Names of cookies and headers. With Cookies.Secure, the cookies of session, visitor and sign-in
// attempts have the prefix hostPrefix in requests and responses.
const (
	SessionCookie = "urr-session"
	AnonCookie    = "urr-anon"
	Tier1Cookie   = "urr-vwr-token"
	EntryCookie   = "urr-entry-token"
	// IDTokenCookie has the ID token of the identity provider, for the sign-out.
	IDTokenCookie = "urr-id-token"
	// attemptCookie is the prefix of the names of the cookies of sign-in attempts.
	attemptCookie = "urr-sign-in-"

	EntryHeader       = "X-Queue-Entry-Token"
	QueueTicketHeader = "X-Queue-Ticket"
	VWRTicketHeader   = "X-Vwr-Ticket"
	ProofHeader       = "X-Vwr-Proof"
	CaptchaHeader     = "X-Vwr-Captcha"
	IdempotencyHeader = "Idempotency-Key"
	IfMatchHeader     = "If-Match"
	LastEventHeader   = "Last-Event-Id"
)

// hostPrefix is the prefix of cookies that browsers accept only from this host, over https and for
// every path. So no other subdomain can set such a cookie (RFC 6265bis, section 4.1.3.2).
const hostPrefix = "__Host-"

// cookieName returns the name of a cookie in requests and responses. With secure, it adds
// hostPrefix to the cookies of session, visitor and sign-in attempts.
func cookieName(name string, secure bool) string {
	if secure && (name == SessionCookie || name == AnonCookie || strings.HasPrefix(name, attemptCookie)) {
		return hostPrefix + name
	}
	return name
}

// maxSameName is how many cookies of one name are read: each forged one costs a signature check.
const maxSameName = 8

// cookies returns the values of the cookies with a name, up to maxSameName. Browsers send several
// for different paths or domains; their order means nothing. It does not parse other cookies, since
// every poll calls it and http.Request.Cookie allocates for each.
func cookies(h http.Header, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		left := maxSameName
		for _, line := range h["Cookie"] {
			for len(line) > 0 {
				var pair string
				pair, line, _ = strings.Cut(line, ";")
				pair = strings.TrimLeft(pair, " ")
				if len(pair) <= len(name)+1 || pair[len(name)] != '=' || pair[:len(name)] != name {
					continue
				}
				if left--; left < 0 || !yield(pair[len(name)+1:]) {
					return
				}
			}
		}
	}
}

// bearerToken returns the Bearer token of the header Authorization, "" for none.
func bearerToken(h http.Header) string {
	v := h["Authorization"]
	const scheme = "Bearer "
	if len(v) == 0 || len(v[0]) <= len(scheme) || !strings.EqualFold(v[0][:len(scheme)], scheme) {
		return ""
	}
	return v[0][len(scheme):]
}

func firstValue(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Proof returns the proof of work of the request, "" for none.
func Proof(h http.Header) string { return firstValue(h, ProofHeader) }

// Captcha returns the token of the captcha provider, "" for none.
func Captcha(h http.Header) string { return firstValue(h, CaptchaHeader) }

// maxQueueTicket is the longest queue ticket, in bytes.
const maxQueueTicket = 256

// QueueTicket returns the queue ticket of the request, "" if it is malformed: the queue service
// gets tickets of many visitors in one call, which must not fail because one of them is malformed.
func QueueTicket(h http.Header) string {
	t := firstValue(h, QueueTicketHeader)
	if len(t) > maxQueueTicket || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return t
}
